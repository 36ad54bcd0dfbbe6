"""Sources of the values of a fill: an expression, a function over batches, or joined rows."""

# Decisions: docs/decisions/0422, docs/decisions/0624

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from moulin.errors import InvalidInput, MoulinError
from moulin.model.assignments import Assignments, fit_column
from moulin.model.rows.conversion import Target
from moulin.model.schema.values import NestedField, Schema
from moulin.table.context import Context
from moulin.table.ports import RowExpression

_NUMBER, _AT = "_moulin_number", "_moulin_at"


class Compute(Protocol):
    """Computes columns from other columns of the same rows. It is sent to tasks."""

    @property
    def stays(self) -> bool:
        """Whether it works in this process alone, and is not sent to tasks."""

    @property
    def reads(self) -> Sequence[str]:
        """The columns to read, by their names when the fill began; `_row_id` may be one of them."""

    def over(self, rows: pa.Table, fields: Sequence[NestedField]) -> list[pa.Array]:
        """The values of each field, in exactly its type, for these rows."""


@dataclass(frozen=True)
class Expression:
    """An expression in the grammar of `update`, over the columns of the schema that the fill began with."""

    schema: Schema
    sql: str
    reads: tuple[str, ...]
    stays: ClassVar[bool] = False

    @classmethod
    def of(cls, schema: Schema, kind: NestedField, sql: str) -> Expression:
        """Raises InvalidInput for what the grammar lacks."""
        bound = _bound(schema, kind, sql)
        return cls(schema, sql, tuple(dict.fromkeys(column.path[0] for column in bound.columns)))

    def over(self, rows: pa.Table, fields: Sequence[NestedField]) -> list[pa.Array]:
        (field,) = fields
        return [self._assignments(field).over(rows)[field.name]]

    def _assignments(self, field: NestedField) -> Assignments:
        """The expression, read once for all row groups of a field."""
        known: tuple[NestedField, Assignments] | None = self.__dict__.get("_known")
        if known is None or known[0] is not field:
            known = self.__dict__["_known"] = (field, _bound(self.schema, field, self.sql))
        return known[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_known"}


def _bound(schema: Schema, field: NestedField, sql: str) -> Assignments:
    target = Schema(field)
    return Assignments.of(target, {field.name: sql}, schema, "from_sql", aliases={}, sql="add_columns with a function")


@dataclass(frozen=True)
class SparkExpression:
    """An expression that our grammar lacks, which Spark evaluates; rows pass through this process."""

    expression: RowExpression
    stays: ClassVar[bool] = True

    @property
    def reads(self) -> tuple[str, ...]:
        return self.expression.reads

    def over(self, rows: pa.Table, fields: Sequence[NestedField]) -> list[pa.Array]:
        (field,) = fields
        return [_fitting(self.expression.over(rows), field, rows.num_rows)]


def expression(context: Context, schema: Schema, field: NestedField, sql: str) -> Expression | SparkExpression:
    """An expression as we evaluate it, or else Spark, if it is at hand. Raises InvalidInput for what neither knows."""
    try:
        return Expression.of(schema, field, sql)
    except InvalidInput:
        spark = context.spark_at_hand()
        if spark is None:
            raise
        return SparkExpression(spark.row_expression(schema, sql))


@dataclass(frozen=True)
class Function:
    """A function that makes of a record batch the new columns: a record batch or table, a dict, or one array."""

    function: Callable[[pa.RecordBatch], Any]
    reads: tuple[str, ...]
    batch_rows: int | None = None
    stays: ClassVar[bool] = False

    def over(self, rows: pa.Table, fields: Sequence[NestedField]) -> list[pa.Array]:
        step = self.batch_rows or max(rows.num_rows, 1)
        parts: list[list[pa.Array]] = [[] for _ in fields]
        for start in range(0, rows.num_rows, step):
            batch = _batch(rows.slice(start, step))
            columns = self._call(batch, [field.name for field in fields])
            for part, field in zip(parts, fields, strict=True):
                part.append(_fitting(columns[field.name], field, batch.num_rows))
        return [_concat(part, field) for part, field in zip(parts, fields, strict=True)]

    def result(self, rows: pa.Table) -> dict[str, Any]:
        """The columns that it makes of some rows, to see which they are."""
        return self._call(_batch(rows), None)

    def _call(self, batch: pa.RecordBatch, names: Sequence[str] | None) -> dict[str, Any]:
        try:
            found = self.function(batch)
        except MoulinError:
            raise
        except Exception as error:
            raise InvalidInput(f"The function failed: {type(error).__name__}: {str(error)[:300]}.") from error
        if isinstance(found, pa.RecordBatch | pa.Table):
            found = dict(zip(found.schema.names, found.columns, strict=True))
        if isinstance(found, pa.Array | pa.ChunkedArray) and names is not None and len(names) == 1:
            found = {names[0]: found}
        if not isinstance(found, Mapping):
            raise InvalidInput(
                "The function must return a pyarrow RecordBatch or Table, or a dict of arrays by column name; it "
                "returned "
                f"{type(found).__name__}."
            )
        if names is not None and (missing := [name for name in names if name not in found]):
            raise InvalidInput(f"The function did not return column {missing[0]!r}; it returned {list(found)}.")
        return dict(found)

    def __reduce__(self) -> tuple[Any, ...]:
        """A function that was written in a notebook or is a lambda goes to tasks as its code."""
        try:
            data = pickle.dumps(self.function)
        except (pickle.PicklingError, AttributeError, TypeError):
            data = _by_value(self.function)
        return _function, (data, self.reads, self.batch_rows)


def _function(data: bytes, reads: tuple[str, ...], batch_rows: int | None) -> Function:
    return Function(pickle.loads(data), reads, batch_rows)


def _by_value(function: Callable[..., Any]) -> bytes:
    for name in ("cloudpickle", "pyspark.cloudpickle"):
        try:
            return bytes(importlib.import_module(name).dumps(function))
        except ImportError:
            continue
    raise InvalidInput("The function cannot be sent to Spark tasks: define it in a module that they can import.")


@dataclass(frozen=True)
class Joined:
    """Rows of another table, found by the columns `on`; rows without a match get null."""

    rows: pa.Table
    on: tuple[str, ...]
    stays: ClassVar[bool] = False

    @property
    def reads(self) -> tuple[str, ...]:
        return self.on

    @classmethod
    def of(cls, rows: pa.Table, on: Sequence[str], schema: Schema) -> Joined:
        """Raises InvalidInput when a value to join by is missing, or there twice."""
        types = {field.name: field for field in schema.fields}
        for name in on:
            if name not in rows.column_names:
                raise InvalidInput(f"The rows to add lack the column {name!r}, by which rows are joined.")
            kind = NestedField(0, name, types[name].field_type) if name in types else None
            column = (
                rows.column(name).cast(pa.int64()) if kind is None else fit_column(rows.column(name), _target(kind))
            )
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        keys = rows.select(list(on))
        if keys.group_by(list(on)).aggregate([]).num_rows < rows.num_rows:
            raise InvalidInput(f"The rows to add have a value of {', '.join(on)} twice: keep one row for each.")
        return cls(rows.combine_chunks(), tuple(on))

    def over(self, rows: pa.Table, fields: Sequence[NestedField]) -> list[pa.Array]:
        wanted = rows.select(list(self.on)).append_column(_AT, pa.array(range(rows.num_rows), pa.int64()))
        known = self.rows.select(list(self.on)).append_column(_NUMBER, pa.array(range(self.rows.num_rows), pa.int64()))
        found = wanted.join(known, list(self.on), join_type="left outer").sort_by(_AT)
        numbers = found.column(_NUMBER).combine_chunks()
        return [_fitting(self.rows.column(field.name).take(numbers), field, rows.num_rows) for field in fields]


def _batch(rows: pa.Table) -> pa.RecordBatch:
    whole = rows.combine_chunks()
    batches = whole.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=whole.schema)


def _target(field: NestedField) -> Target:
    return Target.of(NestedField(field.field_id, field.name, field.field_type, required=False))


def _fitting(values: Any, field: NestedField, rows: int) -> pa.Array:
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        try:
            values = pa.array(values)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidInput(f"Column {field.name}: {str(error).splitlines()[0]}.") from None
    if len(values) != rows:
        raise InvalidInput(f"Column {field.name} was given {len(values)} values for {rows} rows.")
    return fit_column(values, _target(field))


def _concat(parts: Sequence[pa.Array], field: NestedField) -> pa.Array:
    return pa.concat_arrays(parts) if parts else pa.nulls(0, _target(field).type)


__all__ = ["Compute", "Expression", "Function", "Joined", "SparkExpression", "expression"]
