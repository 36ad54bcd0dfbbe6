"""Conditions on rows: the tree that a `where` becomes, its algebra and its Arrow form.

A condition stands for the set of rows for which it is TRUE. SQL's third truth value is gone once the tree is built: NOT
is pushed down to the leaves while the text is read, a leaf holds for no null unless it is a test for null, and
`complement` adds the nulls back. So AND and OR are intersection and union, and no node is needed for NOT.

Values are held as *comparands*, which order as the column does: ints for whole and fixed-point types (booleans are 0
and 1, decimals their unscaled value, dates days, times and timestamps their unit since midnight or 1970), floats, str,
and bytes for uuid, fixed and binary. Floats follow Spark: NaN equals NaN and is above every other value, and -0.0
equals 0.0. No comparand is NaN; `IsNan` stands for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal, TypeAlias

import pyarrow as pa

from moulin.model.columns import compute as pc
from moulin.model.columns.contains import contains
from moulin.model.schema.arrow import arrow_type
from moulin.model.schema.values import BooleanType, DecimalType, DoubleType, FloatType, IcebergType, ListType, UUIDType

Comparand: TypeAlias = int | float | str | bytes
Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field inside struct columns."""

    path: tuple[str, ...]
    field_id: int
    type: IcebergType

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def is_floating(self) -> bool:
        return isinstance(self.type, FloatType | DoubleType)

    @property
    def comparison_type(self) -> pa.DataType:
        """The Arrow type of literals: bytes for uuids, and double for both floats, as in Spark."""
        if isinstance(self.type, UUIDType):
            return pa.binary(16)
        return pa.float64() if self.is_floating else arrow_type(self.type)

    @property
    def stored(self) -> pc.Expression:
        return pc.field(self.path)

    @property
    def comparable(self) -> pc.Expression:
        """The column as an expression that Arrow's comparisons accept; it has none for extension types."""
        return self.stored.cast(pa.binary(16)) if isinstance(self.type, UUIDType) else self.stored

    def array(self, comparands: Iterable[Comparand], arrow: pa.DataType | None = None) -> pa.Array:
        values: list[object] = list(comparands)
        if isinstance(self.type, BooleanType):
            values = [bool(value) for value in values]
        elif isinstance(self.type, DecimalType):
            values = [Decimal(f"{value}E-{self.type.scale}") for value in values]
        return pa.array(values, arrow or self.comparison_type)

    def scalar(self, comparand: Comparand, arrow: pa.DataType | None = None) -> pa.Scalar:
        return self.array((comparand,), arrow)[0]


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool


@dataclass(frozen=True, slots=True)
class And:
    """Intersection; made by `conjunction`, so never nested directly, and with two children or more."""

    children: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Union; made by `disjunction`, so never nested directly, and with two children or more."""

    children: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    column: Column
    operator: Operator
    comparand: Comparand


@dataclass(frozen=True, slots=True)
class In:
    """The value is one of `comparands` (sorted, no two alike), or none of them. Made by `membership`."""

    column: Column
    comparands: tuple[Comparand, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    column: Column
    negated: bool


@dataclass(frozen=True, slots=True)
class IsNan:
    """NaN, or (`negated`) neither NaN nor null."""

    column: Column
    negated: bool


@dataclass(frozen=True, slots=True)
class Like:
    r"""`pattern` is Arrow's: % any text, _ one character, \ escapes.

    All that match start with `prefix`; `whole` says that nothing else is asked of them.
    """

    column: Column
    pattern: str
    prefix: str
    whole: bool
    ignore_case: bool
    negated: bool


@dataclass(frozen=True, slots=True)
class Contains:
    """The list has the element `comparand`, or (`negated`) it has not and has no nulls.

    With `unknown`, lists of which neither is known are taken in: null, or with nulls and without the element. None as
    `comparand` stands for a value that the elements cannot have; here alone NaN is a comparand.
    """

    column: Column
    comparand: Comparand | None
    negated: bool = False
    unknown: bool = False

    @property
    def element(self) -> Column:
        """The elements as a column."""
        assert isinstance(self.column.type, ListType)
        inner = self.column.type
        return Column((*self.column.path, "element"), inner.element_id, inner.element_type)


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """An Arrow expression of boolean type that is evaluated but not understood.

    It is arithmetic, columns compared with each other, or (`foreign`) what the user wrote. With `inverted` it stands
    for the rows for which it is false or null.
    """

    expression: pc.Expression
    columns: tuple[Column, ...]
    foreign: bool = False
    inverted: bool = False


Condition: TypeAlias = Constant | And | Or | Compare | In | IsNull | IsNan | Like | Contains | Computed

TRUE = Constant(True)
FALSE = Constant(False)

NEGATED: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
FLIPPED: dict[Operator, Operator] = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_FUNCTIONS: dict[Operator, str] = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def arrow_comparison(operator: Operator, one: object, other: object) -> pc.Expression:
    """The comparison of two expressions in Arrow."""
    return getattr(pc, _FUNCTIONS[operator])(one, other)


def conjunction(children: Iterable[Condition]) -> Condition:
    """The rows in every child."""
    flat: list[Condition] = []
    for child in children:
        flat.extend(child.children if isinstance(child, And) else (child,))
    if FALSE in flat:
        return FALSE
    kept = _join_members([child for child in flat if child != TRUE], negated=True)
    # Equality first: what it leaves of a column lets the others see that nothing is left.
    kept.sort(key=_selectivity)
    return kept[0] if len(kept) == 1 else And(tuple(kept)) if kept else TRUE


def disjunction(children: Iterable[Condition]) -> Condition:
    """The rows in any child."""
    flat: list[Condition] = []
    for child in children:
        flat.extend(child.children if isinstance(child, Or) else (child,))
    if TRUE in flat:
        return TRUE
    kept = _join_members([child for child in flat if child != FALSE], negated=False)
    return kept[0] if len(kept) == 1 else Or(tuple(kept)) if kept else FALSE


def membership(column: Column, comparands: Iterable[Comparand], negated: bool = False) -> Condition:
    """The value is one of `comparands`, or (`negated`) is there and is none of them."""
    distinct = tuple(sorted(set(comparands)))
    if not distinct:
        return IsNull(column, True) if negated else FALSE
    if len(distinct) == 1:
        return Compare(column, "!=" if negated else "=", distinct[0])
    return In(column, distinct, negated)


def complement(condition: Condition) -> Condition:
    """The rows not in `condition`, those with nulls among them."""
    match condition:
        case Constant(value):
            return Constant(not value)
        case And(children):
            return disjunction(complement(child) for child in children)
        case Or(children):
            return conjunction(complement(child) for child in children)
        case Compare(column, operator, comparand):
            return disjunction([Compare(column, NEGATED[operator], comparand), IsNull(column, False)])
        case In(column) | IsNan(column) | Like(column):
            return disjunction([replace(condition, negated=not condition.negated), IsNull(column, False)])
        case IsNull(column, negated):
            return IsNull(column, not negated)
        case Contains():
            return replace(condition, negated=not condition.negated, unknown=not condition.unknown)
        case Computed():
            return replace(condition, inverted=not condition.inverted)


def leaves(condition: Condition) -> Iterable[Condition]:
    """Every leaf, constants included."""
    if isinstance(condition, And | Or):
        for child in condition.children:
            yield from leaves(child)
    else:
        yield condition


def columns_of(condition: Condition) -> tuple[Column, ...]:
    """Every column that is read, once each, in order of appearance."""
    found: dict[int, Column] = {}
    for leaf in leaves(condition):
        if isinstance(leaf, Computed):
            found.update((column.field_id, column) for column in leaf.columns)
        elif not isinstance(leaf, Constant | And | Or):
            found[leaf.column.field_id] = leaf.column
    return tuple(found.values())


def expression_of(condition: Condition) -> pc.Expression:
    """An Arrow expression that is true for exactly the rows of `condition`, and false or null for the others."""
    match condition:
        case Constant(value):
            return pc.scalar(value)
        case And(children):
            return _balanced([expression_of(child) for child in children], pc.and_kleene)
        case Or(children):
            return _balanced([expression_of(child) for child in children], pc.or_kleene)
        case Compare(column, operator, comparand):
            found = arrow_comparison(operator, column.comparable, column.scalar(comparand))
            # For Arrow no comparison with NaN holds but !=.
            return found | pc.is_nan(column.stored) if column.is_floating and operator in (">", ">=") else found
        case In(column, comparands, negated):
            found = _is_in(column, comparands)
            return ~found & column.stored.is_valid() if negated else found
        case IsNull(column, negated):
            return column.stored.is_valid() if negated else column.stored.is_null()
        case IsNan(column, negated):
            return ~pc.is_nan(column.stored) if negated else pc.is_nan(column.stored)
        case Like(column, pattern, ignore_case=ignore_case, negated=negated):
            found = pc.match_like(column.stored, pattern, ignore_case=ignore_case)
            return ~found if negated else found
        case Contains(negated=negated, unknown=unknown):
            found = _contained(condition)
            found = ~found if negated else found
            return pc.coalesce(found, pa.scalar(True)) if unknown else found
        case Computed(expression, inverted=inverted):
            return ~pc.coalesce(expression, pa.scalar(False)) if inverted else expression


def _contained(condition: Contains) -> pc.Expression:
    element, comparand = condition.element, condition.comparand
    value = pa.scalar(None, element.comparison_type) if comparand is None else element.scalar(comparand)
    return contains(condition.column.stored, value)


def _is_in(column: Column, comparands: tuple[Comparand, ...]) -> pc.Expression:
    if column.is_floating:
        # Arrow looks values up by their bits, so both zeros have to be there.
        comparands = (*comparands, -0.0, 0.0) if 0.0 in comparands else comparands
        return column.stored.cast(pa.float64()).isin(column.array(comparands))
    return column.comparable.isin(column.array(comparands))


def _balanced(parts: Sequence[pc.Expression], join: Callable[[object, object], pc.Expression]) -> pc.Expression:
    """Joined as a tree of logarithmic depth: Arrow walks expressions recursively, on the C stack."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return join(_balanced(parts[:half], join), _balanced(parts[half:], join))


def _join_members(children: list[Condition], negated: bool) -> list[Condition]:
    """`a = 1 or a = 2` as `a in (1, 2)`, and (`negated`) `a != 1 and a != 2` as `a not in (1, 2)`."""
    operator = "!=" if negated else "="
    comparands: dict[int, tuple[Column, list[Comparand]]] = {}
    others: list[Condition] = []
    for child in children:
        if isinstance(child, Compare) and child.operator == operator:
            comparands.setdefault(child.column.field_id, (child.column, []))[1].append(child.comparand)
        elif isinstance(child, In) and child.negated == negated:
            comparands.setdefault(child.column.field_id, (child.column, []))[1].extend(child.comparands)
        else:
            others.append(child)
    return [*(membership(column, found, negated) for column, found in comparands.values()), *others]


def _selectivity(condition: Condition) -> int:
    if isinstance(condition, Compare):
        return {"=": 0, "!=": 3}.get(condition.operator, 1)
    if isinstance(condition, In | IsNull | IsNan | Like | Contains):
        return 4 if condition.negated else 2
    return 5
