"""Converts the filters of Spark's optimizer to our conditions, to skip files.

A condition that is made here holds for every row for which the filter is true, and may hold for others: Spark checks
every row itself. What is not understood, or depends on the settings of the session, counts as true. Both sides of a
comparison have the same type in Spark's plans, so that no literal is converted here.

Nanosecond columns are shown to Spark as microseconds, rounded down, so their conditions are a microsecond wide.
"""

# Decisions: docs/decisions/0301

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

from moulin.errors import InvalidInput
from moulin.model.predicate.condition import (
    FALSE,
    FLIPPED,
    NEGATED,
    TRUE,
    Column,
    Condition,
    IsNull,
    Operator,
    conjunction,
    disjunction,
)
from moulin.model.schema import values as ice
from moulin.model.schema.values import Schema
from moulin.model.where.conditions import array_contains, begins_with, between, compare, is_nan, one_of
from moulin.model.where.literal import Literal, literal_of
from moulin.model.where.moment import DAY_NS, Day, Instant
from moulin.pipeline.sql.catalyst import Expression
from moulin.pipeline.sql.expressions import WHOLE, Node, read_expression

OPERATORS: dict[str, Operator] = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_WHOLE_COLUMNS = (ice.IntegerType, ice.LongType)
_NUMBERS = (*_WHOLE_COLUMNS, ice.FloatType, ice.DoubleType, ice.DecimalType)
_TIMES = (ice.TimestampType, ice.TimestamptzType, ice.TimestampNanoType, ice.TimestamptzNanoType)
_NANOS = (ice.TimestampNanoType, ice.TimestamptzNanoType)
_MICRO = 1000
MOST_MEMBERS = 10_000
"""Of longer lists of values only the least and the greatest are looked at."""

_SEPARATOR = "\0"
_IN_JSON = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}

# The longest that each part of a calendar lasts, with a day for the time zone.
_SPANS = {"SECOND": 1, "MINUTE": 1, "HOUR": 1, "DAY": 2, "WEEK": 8, "MONTH": 32, "QUARTER": 93, "YEAR": 367}


def condition_of(schema: Schema, expression: Expression, every: Any) -> Condition:
    """What a resolved filter on the columns of a table says of its rows; `every` takes every node of a tree."""
    return FilterReader(schema, expression, every).condition


class FilterReader:
    """Reads one filter. Values that JSON does not carry exactly come from the JVM."""

    def __init__(self, schema: Schema, expression: Expression, every: Any) -> None:
        self._schema, self._expression, self._every = schema, expression, every

    @property
    def condition(self) -> Condition:
        return self.read(read_expression(self._expression.toJSON()), False)

    @cached_property
    def _objects(self) -> Any:
        """The nodes of the filter in the JVM, in the order of the JSON."""
        return self._expression.collect(self._every)

    def read(self, node: Node, negated: bool) -> Condition:
        """The rows for which the node, or its opposite, may be true."""
        if node.kind in ("And", "Or"):
            join = conjunction if (node.kind == "And") is not negated else disjunction
            return join([self.read(operand, negated) for operand in node.operands])
        if node.kind == "Not":
            return self.read(node.operands[0], not negated)
        try:
            return self._leaf(node, negated)
        except InvalidInput:  # Spark compares what a `where` does not
            return TRUE

    def _leaf(self, node: Node, negated: bool) -> Condition:
        operator = OPERATORS.get(node.kind)
        if operator is not None:
            return self._comparison(NEGATED[operator] if negated else operator, *node.operands)
        if node.kind == "Literal":
            value = {"true": True, "false": False, None: None}.get(node.fields["value"])
            return FALSE if value is None or value is negated else TRUE
        if node.kind in ("AttributeReference", "GetStructField"):
            column = self.column(node)
            return TRUE if column is None else compare("=", column, literal_of(not negated))
        read = self._tests.get(node.kind)
        return TRUE if read is None else read(node, negated)

    @property
    def _tests(self) -> dict[str, Callable[[Node, bool], Condition]]:
        return {
            "IsNull": lambda node, negated: self._null(node, not negated),
            "IsNotNull": self._null,
            "IsNaN": self._nan,
            "EqualNullSafe": self._same,
            "In": self._member,
            "InSet": self._member,
            "StartsWith": self._prefix,
            "Like": self._prefix,
            "ArrayContains": self._contains,
        }

    def _null(self, node: Node, wanted: bool) -> Condition:
        """With `wanted`, the rows where it is null."""
        column = self.column(node.operands[0])
        if column is None:
            return TRUE
        return IsNull(column, not wanted)

    def _nan(self, node: Node, negated: bool) -> Condition:
        column = self.column(node.operands[0])
        return TRUE if column is None else is_nan(column, negated=negated)

    def _same(self, node: Node, negated: bool) -> Condition:
        left, right = node.operands
        if negated:
            return TRUE
        if left.kind == "Literal":
            left, right = right, left
        if right.kind == "Literal" and right.fields["value"] is None:
            column = self.column(left)
            return TRUE if column is None else IsNull(column, False)
        return self._comparison("=", left, right)

    def _comparison(self, operator: Operator, left: Node, right: Node) -> Condition:
        if left.kind == "Literal":
            left, right, operator = right, left, FLIPPED[operator]
        if right.kind != "Literal":
            return TRUE
        if right.fields["value"] is None:
            return FALSE
        width = _width(left)
        if width is not None:
            return self._truncated(operator, left, right, width)
        column = self.column(left)
        literal = None if column is None else self.literal(column, right)
        return TRUE if column is None or literal is None else _compared(operator, column, literal)

    def _truncated(self, operator: Operator, left: Node, right: Node, width: int) -> Condition:
        """A comparison of a time that was cut to a part of the calendar, which lies at most `width` before it."""
        column = self.column(left.operands[-1])
        if column is None or not isinstance(column.type, _TIMES) or operator == "!=":
            return TRUE
        start = self._moment(right)
        if start is None:
            return TRUE
        zoned = isinstance(column.type, ice.TimestamptzType | ice.TimestamptzNanoType)
        low, high = literal_of(Instant(start - DAY_NS, zoned)), literal_of(Instant(start + width, zoned))
        after, before = compare(">=", column, low), compare("<=", column, high)
        return {"=": conjunction([after, before]), "<": before, "<=": before}.get(operator, after)

    def _moment(self, node: Node) -> int | None:
        """Where the literal lies in time, in nanoseconds; the time zone is not looked at."""
        kind = node.fields["dataType"]
        if kind in ("timestamp", "timestamp_ntz"):
            return int(self._value(node)) * _MICRO
        return int(self._value(node)) * DAY_NS if kind == "date" else None

    def _member(self, node: Node, negated: bool) -> Condition:
        column = self.column(node.operands[0])
        if column is None or negated:
            return TRUE
        literals = list(self._members(column, node))
        if None in literals:
            return TRUE
        found = [literal for literal in literals if literal is not None and literal.value is not None]
        if not found:
            return FALSE
        if len(found) > MOST_MEMBERS:
            return _between(column, found)
        if isinstance(column.type, _NANOS):
            return disjunction([_compared("=", column, literal) for literal in found])
        return one_of(column, found)

    def _members(self, column: Column, node: Node) -> Iterator[Literal | None]:
        """The values of a list; None for one that is not understood."""
        if node.kind == "In":
            for operand in node.operands[1:]:
                yield self.literal(column, operand) if operand.kind == "Literal" else None
            return
        held = self._objects.apply(node.index)
        kind = str(held.child().dataType().catalogString())
        texts = str(held.hset().mkString(_SEPARATOR)).split(_SEPARATOR)
        if len(texts) != held.hset().size() or kind == "binary":
            yield None
            return
        for text in texts:
            if text != "null" or kind == "string":
                yield typed_literal(column, _IN_JSON.get(kind, kind), text)

    def _prefix(self, node: Node, negated: bool) -> Condition:
        """Text that begins so. Of a pattern, what comes before its first special character counts."""
        column, pattern = self.column(node.operands[0]), node.operands[1]
        if column is None or negated or not isinstance(column.type, ice.StringType) or pattern.kind != "Literal":
            return TRUE
        text = pattern.fields["value"]
        if text is None or pattern.fields["dataType"] != "string":
            return TRUE
        if node.kind == "Like":
            special = {"%", "_", str(self._objects.apply(node.index).escapeChar())}
            text = text[: next((at for at, letter in enumerate(text) if letter in special), len(text))]
        return begins_with(column, text) if text else TRUE

    def _contains(self, node: Node, negated: bool) -> Condition:
        """Lists of a column that have a value. Text of uuids and moments finer than Spark's are left to Spark."""
        found, value = self._field(node.operands[0]), node.operands[1]
        if found is None or negated or value.kind != "Literal" or not isinstance(found[1].field_type, ice.ListType):
            return TRUE
        lists = Column(found[0], found[1].field_id, found[1].field_type)
        element = Column(lists.path, found[1].field_type.element_id, found[1].field_type.element_type)
        literal = None if isinstance(element.type, (ice.UUIDType, *_NANOS)) else self.literal(element, value)
        return TRUE if literal is None else array_contains(lists, literal)

    def column(self, node: Node) -> Column | None:
        """The column, or field of a struct, that a node is, perhaps in a type that shows each of its values exactly."""
        if node.kind == "Cast":
            inner = self.column(node.operands[0])
            return inner if inner is not None and _is_exact(inner.type, node.fields["dataType"]) else None
        found = self._field(node)
        if found is None or not isinstance(found[1].field_type, ice.PrimitiveType):
            return None
        path, field = found
        return Column(path, field.field_id, field.field_type)

    def _field(self, node: Node) -> tuple[tuple[str, ...], ice.NestedField] | None:
        if node.kind == "AttributeReference":
            return self._named(node.fields["name"])
        if node.kind != "GetStructField":
            return None
        around = self._field(node.operands[0])
        if around is None or not isinstance(around[1].field_type, ice.StructType):
            return None
        inner = around[1].field_type.fields[int(node.fields["ordinal"])]
        return (*around[0], inner.name), inner

    def _named(self, name: str) -> tuple[tuple[str, ...], ice.NestedField] | None:
        """The column of this name. Spark writes it as the query does, which may be in another case."""
        fields = self._schema.fields
        found = [f for f in fields if f.name == name] or [f for f in fields if f.name.lower() == name.lower()]
        return ((found[0].name,), found[0]) if len(found) == 1 else None

    def literal(self, column: Column, node: Node) -> Literal | None:
        """A literal beside a column; None for one that is not understood."""
        kind, value = node.fields["dataType"], node.fields["value"]
        if not isinstance(kind, str):
            return None
        if value is not None and kind in ("timestamp", "timestamp_ntz", "date", "binary"):
            value = self._value(node)
        return Literal(None, "null") if value is None else typed_literal(column, kind, value)

    def _value(self, node: Node) -> Any:
        return self._objects.apply(node.index).value()


def typed_literal(column: Column, kind: str, value: Any) -> Literal | None:
    """A value of one of Spark's types beside a column; None where the two do not go together."""
    fits: tuple[type[ice.IcebergType], ...] = ()
    made: Literal | None = None
    if kind == "string":
        fits, made = (ice.StringType, ice.UUIDType), literal_of(str(value))
    elif kind in WHOLE:
        fits, made = _NUMBERS, literal_of(int(value))
    elif kind in ("double", "float"):
        fits, made = _NUMBERS, _floating(float(value), single=kind == "float")
        if isinstance(made.value, str):
            fits = (ice.FloatType, ice.DoubleType)
    elif kind.startswith("decimal"):
        fits, made = _NUMBERS, Literal(Decimal(value), str(value))
    elif kind == "boolean":
        fits, made = (ice.BooleanType,), literal_of(value == "true")
    elif kind == "date":
        fits, made = (ice.DateType,), literal_of(Day(int(value)))
    elif kind in ("timestamp", "timestamp_ntz"):
        zoned = kind == "timestamp"
        fits = (ice.TimestamptzType, ice.TimestamptzNanoType) if zoned else (ice.TimestampType, ice.TimestampNanoType)
        made = literal_of(Instant(int(value) * _MICRO, zoned))
    elif kind == "binary":
        fits, made = (ice.BinaryType, ice.FixedType), literal_of(bytes(value))
    return made if isinstance(column.type, fits) else None


def _floating(value: float, *, single: bool) -> Literal:
    if value != value or value in (float("inf"), float("-inf")):
        return Literal(str(value), str(value))
    return literal_of(struct.unpack("<f", struct.pack("<f", value))[0] if single else value)


def _compared(operator: Operator, column: Column, literal: Literal) -> Condition:
    if isinstance(column.type, ice.UUIDType) and operator != "=":
        return TRUE  # Spark compares their texts
    if not isinstance(column.type, _NANOS) or not isinstance(literal.value, Instant):
        return compare(operator, column, literal)
    start, zoned = literal.value
    following = literal_of(Instant(start + _MICRO, zoned))
    if operator == "=":
        return conjunction([compare(">=", column, literal), compare("<", column, following)])
    if operator == "!=":
        return TRUE
    if operator in (">", "<="):
        return compare(">=" if operator == ">" else "<", column, following)
    return compare(operator, column, literal)


def _between(column: Column, literals: Sequence[Literal]) -> Condition:
    """The range of a long list of values."""
    values: list[Any] = [literal.value for literal in literals]
    if isinstance(column.type, _NANOS) or len({type(value) for value in values}) > 1:
        return TRUE
    return between(column, Literal(min(values), "the least"), Literal(max(values), "the greatest"))


def _is_exact(kind: ice.IcebergType, wanted: Any) -> bool:
    """Whether Spark's cast to a type keeps every value of a column, and their order."""
    if isinstance(kind, ice.IntegerType):
        return wanted in ("integer", "long", "double") or _digits(wanted) >= 10
    if isinstance(kind, ice.LongType):
        return wanted == "long" or _digits(wanted) >= 19
    return isinstance(kind, ice.FloatType) and wanted == "double"


def _digits(wanted: Any) -> int:
    """The digits before the point of a decimal type; none of another."""
    if not isinstance(wanted, str) or not wanted.startswith("decimal("):
        return 0
    precision, scale = wanted.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision) - int(scale)


def _width(node: Node) -> int | None:
    """By how much at most a node moves a time back, and a day for the time zone; None when it does something else."""
    if node.kind == "Cast" and node.fields["dataType"] == "date":
        return 2 * DAY_NS
    if node.kind != "TruncTimestamp" or node.operands[0].kind != "Literal":
        return None
    part = str(node.operands[0].fields["value"]).upper()
    return (_SPANS[part] + 1) * DAY_NS if part in _SPANS else None
