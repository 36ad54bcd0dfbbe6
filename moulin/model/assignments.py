"""New values of columns in a change: expressions in the syntax of a `where`, or plain Python values.

They are bound to a schema once, checked against the types of their columns, and sent to tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.names import did_you_mean
from moulin.model.predicate.condition import Column
from moulin.model.predicate.evaluation import evaluate
from moulin.model.rows.conversion import Misfit, Target, fit
from moulin.model.rows.python_values import from_python
from moulin.model.schema.schema import key_names
from moulin.model.schema.values import DecimalType, DoubleType, FloatType, NestedField, Schema
from moulin.model.where import parse_term
from moulin.model.where.formula import Term, term_columns
from moulin.model.where.literal import Literal


@dataclass(frozen=True)
class Assignments:
    """Values by column of a table. `values` are terms over other rows, or arrays of the one value for every row.

    `what` names the argument that they were given as, for messages.
    """

    schema: Schema
    values: Mapping[str, Term | pa.Array]
    what: str

    @classmethod
    def of(
        cls,
        schema: Schema,
        given: Mapping[str, object],
        rows: Schema,
        what: str,
        *,
        aliases: Mapping[str, str],
        sql: str,
    ) -> Assignments:
        """What `given` gives to columns of `schema`: text is an expression over `rows`, anything else is the value.

        `sql` is the statement to advise for an expression that the grammar lacks. InvalidInput says what is wrong.
        """
        if not isinstance(given, Mapping) or not given:
            raise InvalidInput(f'{what} must be a dict of columns and values, such as {{"amount": "amount * 2"}}.')
        known = {field.name for field in schema.fields}
        values: dict[str, Term | pa.Array] = {}
        for name, value in given.items():
            if name not in known:
                raise InvalidInput(
                    f"{what} names {name!r}, which is not a column of the table.{did_you_mean(str(name), known)}"
                )
            if not isinstance(value, str):
                values[name] = _constant(value, schema.find_field(name), what)
                continue
            try:
                values[name] = parse_term(value, rows, aliases)
            except InvalidInput as error:
                raise InvalidInput(
                    f"{what} of {name}: {error.message} A string value needs its own quotes (\"'new'\"); {sql} "
                    "accepts any expression."
                ) from None
        return cls(schema, values, what)

    def refuse_key(self) -> None:
        """Refuse values for columns of the primary key: a row keeps its key."""
        for name in key_names(self.schema):
            if name in self.values:
                raise InvalidInput(
                    f"{self.what} cannot change {name}: it is part of the key. Delete the row and insert it under its "
                    "new key."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that get values, in the order of the table."""
        return tuple(field.name for field in self.schema.fields if field.name in self.values)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that the values are computed from."""
        terms = (value for value in self.values.values() if not isinstance(value, pa.Array))
        return tuple(column for term in terms for column in term_columns(term))

    def over(self, rows: pa.Table) -> dict[str, pa.Array]:
        """The values for some rows, in the types of their columns. Whether a required one is null is not looked at."""
        found: dict[str, pa.Array] = {}
        for name, value in self.values.items():
            field = self.schema.find_field(name)
            target = Target.of(NestedField(field.field_id, name, field.field_type, required=False))
            if isinstance(value, pa.Array):
                found[name] = _repeated(value, rows.num_rows)
            else:
                found[name] = fit_column(term_values(value, field, target, rows, self.what), target)
        return found


def term_values(
    term: Term, field: NestedField, target: Target, rows: pa.Table, what: str
) -> pa.ChunkedArray | pa.Array:
    """The value of a term for each row, for a column; `fit_column` makes it fit."""
    if isinstance(term, Literal):
        return _literal(term, field, target, rows.num_rows, what)
    return computed(term.stored if isinstance(term, Column) else term.expression, rows, f"{what} of {field.name}")


def computed(expression: pc.Expression, rows: pa.Table, what: str) -> pa.ChunkedArray:
    """The value of an expression for each row."""
    try:
        return evaluate(expression, rows)
    except pa.ArrowException as error:
        raise InvalidInput(f"{what} cannot be computed: {str(error).splitlines()[0]}.") from None


def fit_column(column: pa.ChunkedArray | pa.Array, target: Target) -> pa.Array:
    """A column in exactly the type of `target`."""
    array = column
    if isinstance(column, pa.ChunkedArray):  # of no chunks, Arrow cannot combine those with a UUID inside
        array = column.combine_chunks() if column.num_chunks else pa.nulls(0, column.type)
    try:
        if pa.types.is_decimal256(array.type):  # what decimals are computed in
            array = array.cast(target.type if pa.types.is_decimal(target.type) else pa.float64())
        return fit(array, target, rounding=True)
    except Misfit as misfit:
        raise InvalidInput(f"Column {misfit.path}: {misfit.reason}") from None
    except pa.ArrowException as error:
        raise InvalidInput(f"Column {target.path}: {str(error).splitlines()[0]}.") from None


def _constant(value: object, field: NestedField, what: str) -> pa.Array:
    try:
        return from_python([value], Target.of(field))
    except Misfit as misfit:
        raise InvalidInput(f"{what} of {misfit.path}: {misfit.reason}") from None


def _literal(term: Literal, column: NestedField, target: Target, rows: int, what: str) -> pa.Array:
    value: object = term.value
    if isinstance(value, Decimal) and not isinstance(column.field_type, DecimalType):
        floating = isinstance(column.field_type, FloatType | DoubleType)
        value = float(value) if floating else int(value) if value == int(value) else value
    try:
        if isinstance(value, str) and not pa.types.is_string(target.type):
            one = pa.array([value]).cast(target.type)
        else:
            one = from_python([value], target)
    except (Misfit, pa.ArrowException, TypeError, ValueError):
        raise InvalidInput(f"{what} of {column.name}: {term.sql} is not a value of type {column.field_type}.") from None
    return _repeated(one, rows)


def _repeated(one: pa.Array, rows: int) -> pa.Array:
    return one.take(pa.array(np.zeros(rows, np.int64))) if rows != 1 else one


__all__ = ["Assignments", "computed", "fit_column", "term_values"]
