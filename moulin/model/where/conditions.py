"""What every front end builds its conditions from: functions from terms (columns, literals, formulas) to a condition.

The reader of SQL text, Iceberg's filters (`iceberg.rest.scan.filter`) and the filters of `lake.sql`
(`pipeline.sql.filters`) call these functions, so that a comparison means the same wherever it was written. Each
function takes `negated` where SQL has a negative form; it then returns the rows for which the opposite is TRUE. They
raise InvalidInput for a literal that has no counterpart in the column's type.
"""

# Decisions: docs/decisions/0210

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.predicate.condition import (
    FALSE,
    FLIPPED,
    NEGATED,
    TRUE,
    Column,
    Computed,
    Condition,
    Constant,
    Contains,
    IsNan,
    IsNull,
    Operator,
    complement,
    conjunction,
    disjunction,
    membership,
)
from moulin.model.schema.schema import column_path
from moulin.model.schema.values import ListType, Schema, StringType
from moulin.model.where.formula import Formula, Term, compared, compared_literals, formula
from moulin.model.where.like import like, starts_with
from moulin.model.where.literal import Literal, comparison, members


def column_with_id(schema: Schema, field_id: int) -> Column | None:
    """The column or field of a struct with this id; None when it lies in a list or a map, or nowhere."""
    path = column_path(schema, field_id)
    return None if path is None else Column(path, field_id, schema.find_type(field_id))


def compare(operator: Operator, left: Term, right: Term, *, negated: bool = False) -> Condition:
    if negated:
        operator = NEGATED[operator]
    if isinstance(left, Literal) and isinstance(right, Literal):
        return compared_literals(operator, left, right)
    if any(isinstance(side, Literal) and side.value is None for side in (left, right)):
        return FALSE
    if isinstance(left, Column) and isinstance(right, Literal):
        return comparison(_comparable(left), operator, right)
    if isinstance(left, Literal) and isinstance(right, Column):
        return comparison(_comparable(right), FLIPPED[operator], left)
    return compared(operator, left, right)


def between(term: Term, low: Term, high: Term, *, negated: bool = False) -> Condition:
    if negated:
        return disjunction([compare("<", term, low), compare(">", term, high)])
    return conjunction([compare(">=", term, low), compare("<=", term, high)])


def same(left: Term, right: Term) -> Condition:
    """Equal, or both null."""
    return disjunction([compare("=", left, right), conjunction([is_null(left), is_null(right)])])


def one_of(term: Term, choices: Sequence[Term], *, negated: bool = False) -> Condition:
    """REQUIRES: at least one choice."""
    literals = [choice for choice in choices if isinstance(choice, Literal)]
    if not isinstance(term, Column) or len(literals) < len(choices):
        parts = [compare("=", term, choice, negated=negated) for choice in choices]
        return conjunction(parts) if negated else disjunction(parts)
    given = [literal for literal in literals if literal.value is not None]
    comparands, nan = members(_comparable(term), given)
    if not negated:
        return disjunction([membership(term, comparands), IsNan(term, False) if nan else FALSE])
    if len(given) < len(literals):
        return FALSE
    return conjunction([membership(term, comparands, True), IsNan(term, True) if nan else TRUE])


def is_null(term: Term) -> Condition:
    if isinstance(term, Literal):
        return Constant(term.value is None)
    return IsNull(term, False) if isinstance(term, Column) else Computed(term.expression.is_null(), term.columns)


def is_nan(term: Term, *, negated: bool = False) -> Condition:
    """With `negated`, nulls are taken in: NaN is a value, and a null is not it."""
    computed = formula(term)
    if computed.kind != "floating":
        raise InvalidInput("isnan needs a column of type float or double.")
    found: Condition = (
        IsNan(term, False) if isinstance(term, Column) else Computed(pc.is_nan(computed.expression), computed.columns)
    )
    return complement(found) if negated else found


def matches(term: Term, pattern: str, escape: str, *, ignore_case: bool, negated: bool = False) -> Condition:
    """The term is like `pattern`."""
    return like(_text(term), pattern, escape, ignore_case, negated)


def begins_with(term: Term, prefix: str, *, negated: bool = False) -> Condition:
    return starts_with(_text(term), prefix, negated)


def array_contains(term: Term, value: Term, *, negated: bool = False) -> Condition:
    """The list `term` has the element `value`. Unknown, as in Spark, for a null list and one that has nulls instead."""
    if isinstance(term, Literal) and term.value is None:
        return FALSE
    if not isinstance(term, Column) or not isinstance(term.type, ListType):
        what = f"column {term.name} is of type {term.type}" if isinstance(term, Column) else "no column was given"
        raise InvalidInput(f"array_contains needs a column of lists, and {what}.")
    if not isinstance(value, Literal):
        raise InvalidInput("array_contains needs a literal as the element; use lake.sql to search for a column.")
    if value.value is None:
        return FALSE
    found = Contains(term, None, negated)
    comparands, nan = members(_comparable(found.element), [value])
    comparand = float("nan") if nan else comparands[0] if comparands else None
    return FALSE if comparand is None and not negated else replace(found, comparand=comparand)


def _text(term: Term) -> Column | Formula:
    if isinstance(term, Column) and isinstance(term.type, StringType):
        return term
    found = formula(term)
    if found.kind != "text":
        what = f"column {term.name} is of type {term.type}" if isinstance(term, Column) else "a number was given"
        raise InvalidInput(f"like needs text, and {what}.")
    return found


def _comparable(column: Column) -> Column:
    formula(column)  # refuses structs, lists and maps
    return column
