"""What a query asks for sure of one of its tables, so that files without such a row need not be read.

Only what Spark and Moulin are certain to understand alike counts: `column = literal` and `column in (literals)`, of
text or whole numbers, joined by `and` in the WHERE of a SELECT from this table alone. Spark checks every row itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, StringType
from sqlglot import exp

from moulin.errors import InvalidInput
from moulin.model.names import quote
from moulin.model.predicate import Predicate
from moulin.model.where import parse_where

_PLAIN = {"this", "db", "alias", "version", "when"}  # what a table in FROM may have and still show its own columns


@dataclass(frozen=True, slots=True)
class Known:
    """The column of every row that is asked for has one of these values."""

    column: str
    values: tuple[str, ...] | tuple[int, ...]


def known_values(table: exp.Table) -> tuple[Known, ...]:
    """What the query around a table says of its columns. Names are not looked up."""
    select = table.parent.parent if isinstance(table.parent, exp.From) else None
    if not isinstance(select, exp.Select) or select.args.get("joins") or select.args.get("laterals"):
        return ()
    alias = table.args.get("alias")
    if {name for name, part in table.args.items() if part} - _PLAIN or (alias and alias.args.get("columns")):
        return ()
    where = select.args.get("where")
    name = (table.alias or table.name).lower()
    return () if where is None else tuple(_known(where.this, name))


def _known(condition: exp.Expression, table: str) -> Iterator[Known]:
    if isinstance(condition, exp.Paren):
        yield from _known(condition.this, table)
    elif isinstance(condition, exp.And):
        yield from _known(condition.this, table)
        yield from _known(condition.expression, table)
    elif isinstance(condition, exp.EQ):
        for column, value in ((condition.this, condition.expression), (condition.expression, condition.this)):
            yield from _listed(column, [value], table)
    elif isinstance(condition, exp.In) and not any(condition.args.get(other) for other in ("query", "unnest", "field")):
        yield from _listed(condition.this, condition.expressions, table)


def _listed(column: exp.Expression, values: Sequence[exp.Expression], table: str) -> Iterator[Known]:
    parts = list(column.parts) if isinstance(column, exp.Column) else []
    if not values or not (len(parts) == 1 or (len(parts) == 2 and parts[0].name.lower() == table)):
        return
    if all(isinstance(value, exp.Literal) and value.is_string for value in values):
        yield Known(parts[-1].name, tuple(value.this for value in values))
    elif all(isinstance(value, exp.Literal) and value.this.isdecimal() for value in values):
        yield Known(parts[-1].name, tuple(int(value.this) for value in values))


def predicate_of(known: Sequence[Known], schema: Schema) -> Predicate:
    """The rows of a table of which all this is true; what does not fit the types of its columns is left out."""
    fields = {field.name.lower(): field for field in schema.fields}
    conditions = []
    for one in known:
        field = fields.get(one.column.lower())
        fitting = StringType if isinstance(one.values[0], str) else (IntegerType, LongType)
        if field is not None and isinstance(field.field_type, fitting):
            values = ", ".join(_literal(value) for value in one.values)
            conditions.append(f"{quote(field.name)} in ({values})")
    try:
        return parse_where(" and ".join(conditions) or None, schema)
    except InvalidInput:  # whatever it is, Spark says it better, or takes it
        return parse_where(None, schema)


def _literal(value: str | int) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
