"""Finds the comparisons of a pyarrow expression: Arrow serializes it as Substrait, from which comparisons with literals
are read.

The expression itself is always evaluated too, so parts that are unknown here only cost time.
"""

# Decisions: docs/decisions/0580

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa

from moulin.model.columns import compute as pc
from moulin.model.predicate.condition import (
    FALSE,
    FLIPPED,
    NEGATED,
    TRUE,
    Column,
    Comparand,
    Compare,
    Condition,
    IsNan,
    IsNull,
    Operator,
    conjunction,
    disjunction,
    membership,
)
from moulin.model.schema.arrow import arrow_type
from moulin.model.schema.values import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

Message: TypeAlias = Mapping[int, Sequence[int | bytes]]
"""A message of Protocol Buffers: the values of each field, by its number. Texts and inner messages are bytes."""

_OPERATORS: Final[Mapping[str, Operator]] = {
    "equal": "=",
    "not_equal": "!=",
    "lt": "<",
    "lte": "<=",
    "gt": ">",
    "gte": ">=",
}
# Numbers of fields in Substrait's algebra.proto and extensions.proto.
_FUNCTIONS, _EXPRESSIONS = 2, 3
_LITERAL, _SELECTION, _CALL, _CHOICE = 1, 2, 3, 8
_DECIMAL, _LEAST_OF_WHOLE = 24, 1 << 63
_DEEPEST = 200  # nodes below one another; deeper ones are left out

_KINDS: Final[Mapping[int, tuple[type[IcebergType], ...]]] = {
    1: (BooleanType,),
    5: (IntegerType,),
    7: (LongType,),
    10: (FloatType,),
    11: (DoubleType,),
    12: (StringType,),
    14: (TimestampType,),
    16: (DateType,),
    27: (TimestamptzType,),
}
"""By the field of a literal, the types of columns whose comparands it has."""


def weaker(expression: pc.Expression, columns: Sequence[Column], *, floats: bool = True) -> Condition:
    """A condition that holds for every row for which `expression` is true; it may hold for others.

    `columns` are those that the expression reads by name. Without `floats`, comparisons of such columns are not read:
    for Arrow NaN is less and greater than nothing, and others think otherwise.
    """
    known = [column for column in columns if type(column.type) in _READABLE]
    schema = pa.schema([pa.field(column.path[0], arrow_type(column.type)) for column in known])
    try:
        from pyarrow import substrait

        written = substrait.serialize_expressions([expression], ["where"], schema, allow_arrow_extensions=True)
    except (ImportError, pa.ArrowException, ValueError, TypeError, LookupError):
        return TRUE
    try:
        return _Reader(bytes(written), known, floats).condition()
    except (ValueError, LookupError, struct.error):
        return TRUE


class _Reader:
    """Reads one expression. A leaf that is not understood is TRUE, and so is its opposite."""

    def __init__(self, written: bytes, columns: Sequence[Column], floats: bool) -> None:
        self._message, self._columns, self._floats = parse(written), columns, floats
        self._functions: dict[int, str] = {}
        for one in self._message.get(_FUNCTIONS, ()):
            declared = parse(_inner(parse(one), 3))
            self._functions[_number(declared, 2)] = _inner(declared, 3).decode()

    def condition(self) -> Condition:
        (reference,) = self._message[_EXPRESSIONS]
        return self._read(parse(_inner(parse(reference), 1)), False, 0)

    def _read(self, node: Message, negated: bool, depth: int) -> Condition:
        """The rows for which the node, or its opposite, may be true."""
        if depth > _DEEPEST:
            return TRUE
        if _CALL in node:
            return self._call(parse(_inner(node, _CALL)), negated, depth)
        if _CHOICE in node:
            return self._choice(parse(_inner(node, _CHOICE)), negated)
        column = self._column(node)
        if column is not None and isinstance(column.type, BooleanType):
            return Compare(column, "=", int(not negated))
        return TRUE

    def _call(self, call: Message, negated: bool, depth: int) -> Condition:
        name = self._functions[_number(call, 1)]
        operands = [parse(_inner(parse(argument), 3)) for argument in call.get(4, ())]
        if name in ("and", "or"):
            join = conjunction if (name == "and") is not negated else disjunction
            return join([self._read(operand, negated, depth + 1) for operand in operands])
        if name == "not":
            return self._read(operands[0], not negated, depth + 1)
        if name in _OPERATORS and len(operands) == 2:
            operator = _OPERATORS[name]
            found = self._comparison(NEGATED[operator] if negated else operator, *operands)
            # For Arrow a comparison with NaN is false, so its opposite is true.
            if negated and isinstance(found, Compare) and found.column.is_floating:
                return disjunction([found, IsNan(found.column, False)])
            return found
        column = self._column(operands[0]) if operands else None
        if column is None:
            return TRUE
        if name in ("is_null", "is_not_null") and not column.is_floating:  # NaN may be taken for null
            return IsNull(column, (name == "is_not_null") is not negated)
        if name == "is_nan" and column.is_floating:
            return TRUE if negated else IsNan(column, False)
        return TRUE

    def _comparison(self, operator: Operator, one: Message, other: Message) -> Condition:
        column, literal = self._column(one), other
        if column is None:
            column, literal, operator = self._column(other), one, FLIPPED[operator]
        if column is None or (column.is_floating and operator == "!="):
            return TRUE  # for Arrow NaN is unequal to everything
        comparand = _comparand(literal, column.type)
        return TRUE if comparand is None else Compare(column, operator, comparand)

    def _choice(self, choice: Message, negated: bool) -> Condition:
        column = self._column(parse(_inner(choice, 1)))
        options = [] if column is None else [_comparand(_wrapped(option), column.type) for option in choice.get(2, ())]
        comparands = [option for option in options if option is not None]
        if column is None or negated or len(comparands) < len(options):
            return TRUE
        return membership(column, comparands) if comparands else FALSE

    def _column(self, node: Message) -> Column | None:
        """The column that a node is; None for what is not one, a field of a struct, and a column that is not read."""
        if set(node) != {_SELECTION}:
            return None
        field = parse(_inner(parse(_inner(parse(_inner(node, _SELECTION)), 1)), 2))
        column = self._columns[_number(field, 1)]
        return None if 2 in field or (column.is_floating and not self._floats) else column


def _wrapped(literal: int | bytes) -> Message:
    """A literal as the expression that it is elsewhere."""
    return {_LITERAL: (literal,)}


def _comparand(node: Message, kind: IcebergType) -> Comparand | None:
    """The literal that a node is, as a comparand of columns of a type; None where there is none."""
    if set(node) != {_LITERAL}:
        return None
    literal = parse(_inner(node, _LITERAL))
    if len(literal) != 1:
        return None
    ((field, (value,)),) = literal.items()
    if field == _DECIMAL and isinstance(kind, DecimalType):
        decimal = parse(_bytes(value))
        same = _number(decimal, 3) == kind.scale
        return int.from_bytes(_inner(decimal, 1), "little", signed=True) if same else None
    if type(kind) not in _KINDS.get(field, ()):
        return None
    if isinstance(value, int):
        return value - (2 * _LEAST_OF_WHOLE) if value >= _LEAST_OF_WHOLE else value
    if field == 12:
        return value.decode()
    number: float = struct.unpack("<f" if field == 10 else "<d", value)[0]
    return None if number != number else number


def parse(data: int | bytes) -> Message:
    """A message of Protocol Buffers; ValueError for what is none."""
    found: dict[int, list[int | bytes]] = {}
    for field, value in _fields(_bytes(data)):
        found.setdefault(field, []).append(value)
    return found


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind not in _SIZES:
            raise ValueError(f"wire type {kind}")
        size, at = _SIZES[kind](data, at)
        if at + size > len(data):
            raise ValueError("it is cut short")
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number is too long")


_SIZES: Final[Mapping[int, Callable[[bytes, int], tuple[int, int]]]] = {
    1: lambda data, at: (8, at),
    2: _varint,
    5: lambda data, at: (4, at),
}


def _number(message: Message, field: int) -> int:
    """A number, which is not written when it is 0."""
    value = message.get(field, (0,))[0]
    if not isinstance(value, int):
        raise ValueError("a number is text")
    return value


def _inner(message: Message, field: int) -> bytes:
    """A text or an inner message, which may be empty and not written."""
    return _bytes(message.get(field, (b"",))[0])


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a text is a number")
    return value


_READABLE: Final = frozenset([*(kind for kinds in _KINDS.values() for kind in kinds), DecimalType])

__all__ = ["parse", "weaker"]
