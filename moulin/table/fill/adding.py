"""The ways to add columns with values: from an expression, from a function, from other rows."""

# Decisions: docs/decisions/0422, docs/decisions/0472, docs/decisions/0623

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from moulin.errors import FailedPrecondition, InvalidInput, NotFound
from moulin.model.entities import TableState
from moulin.model.filling import fillings_of
from moulin.model.names import did_you_mean
from moulin.model.schema.arrow import ROW_ID
from moulin.model.schema.schema import find_column, key_names, make_schema
from moulin.model.schema.type_reader import to_type
from moulin.model.schema.values import NestedField, Schema
from moulin.model.tags import COMPUTED_PREFIX
from moulin.table.context import Context
from moulin.table.fill.compute import Compute, Function, Joined, expression
from moulin.table.fill.fill import Filler, NewColumn, begin
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.read.scan import Scan
from moulin.table.write.writes import Outcome

_SAMPLE_ROWS = 16


def add_computed(
    context: Context, load: Callable[[], TableState], keyed: KeyedTable | None, name: str, kind: Any, sql: str
) -> Outcome:
    """Add a column whose values an expression gives."""
    wanted = to_type(kind, f"column {name}")
    schema = _began_with(load(), [name])
    compute = expression(context, schema, NestedField(1, name, wanted, required=False), sql)
    return _add(context, load, keyed, [(name, wanted)], compute, sql)


def compute_again(
    context: Context,
    load: Callable[[], TableState],
    keyed: KeyedTable | None,
    name: str,
    sql: str | None,
    *,
    unreported: bool = False,
) -> Outcome:
    """Give a column new values; by default those of its expression, if it was added with one.

    Of a column that was added without values the feed reports changes: this one is `unreported`.
    """
    state = load()
    if name not in (known := [field.name for field in state.schema.fields]):
        raise NotFound(f"Table {state.full_name} has no column {name!r}.{did_you_mean(name, known)}")
    going = fillings_of(state.properties, state.schema).get(name)
    field = find_column(state.schema, name)
    mark = state.properties.get(f"{COMPUTED_PREFIX}{field.field_id}")
    if mark is None and not unreported:
        raise FailedPrecondition(
            f"Column {name} of {state.full_name} was not created by a computation, so readers of the change feed "
            f"follow it: use update(), which the feed reports, or pass unreported=True."
        )
    if field.required:
        raise FailedPrecondition(f"Column {name} of {state.full_name} is NOT NULL: make it nullable, or use update().")
    wanted = sql or (going.sql if going is not None else None) or mark
    if not wanted:
        raise InvalidInput(f"Column {name} has no stored expression: pass from_sql.")
    schema = _began_with(state, [name])
    compute = expression(context, schema, NestedField(1, name, field.field_type, required=False), wanted)
    begin(context, load, keyed, [(name, field.field_type)], compute.reads, wanted, again=True)
    return Filler(context, load, keyed, (name,), compute).run()


def add_from_function(
    context: Context,
    load: Callable[[], TableState],
    keyed: KeyedTable | None,
    function: Callable[[pa.RecordBatch], Any],
    read: Sequence[str],
    batch_rows: int | None,
    schema: Any,
) -> Outcome:
    """Add the columns that a function makes of others."""
    if isinstance(read, str) or (batch_rows is not None and (not isinstance(batch_rows, int) or batch_rows < 1)):
        raise InvalidInput("`read` must be a list of column names, and `batch` at least 1.")
    state = load()
    known = [field.name for field in state.schema.fields]
    for name in read:
        if name not in known and name != ROW_ID:
            raise InvalidInput(f"Table {state.full_name} has no column {name!r}.{did_you_mean(name, known)}")
    compute = Function(function, tuple(read), batch_rows)
    columns = _columns(make_schema(_made(context, state, compute) if schema is None else schema))
    return _add(context, load, keyed, columns, compute, None)


def add_from_rows(
    context: Context,
    load: Callable[[], TableState],
    keyed: KeyedTable | None,
    data: Any,
    on: str | Sequence[str] | None,
) -> Outcome:
    """Add the columns of other rows, joined by key or row id."""
    state, rows = load(), _as_table(data)
    names = list(key_names(state.schema)) if on is None else [on] if isinstance(on, str) else list(on)
    if not names:
        raise InvalidInput(
            f'Table {state.full_name} has no primary key: give the columns to join by, such as on="_row_id".'
        )
    known = {field.name for field in state.schema.fields}
    for name in names:
        if name not in known and name != ROW_ID:
            raise InvalidInput(f"Table {state.full_name} has no column {name!r} to join by.")
    added = rows.drop_columns([name for name in names if name in rows.column_names])
    if not added.num_columns:
        raise InvalidInput("The rows have only the join columns: there is nothing to add.")
    return _add(context, load, keyed, _columns(make_schema(added.schema)), Joined.of(rows, names, state.schema), None)


def _add(
    context: Context,
    load: Callable[[], TableState],
    keyed: KeyedTable | None,
    columns: Sequence[NewColumn],
    compute: Compute,
    sql: str | None,
) -> Outcome:
    begin(context, load, keyed, columns, compute.reads, sql)
    return Filler(context, load, keyed, tuple(name for name, _ in columns), compute).run()


def _began_with(state: TableState, names: Sequence[str]) -> Schema:
    """The schema whose names an expression uses: that of the beginning, where a fill goes on."""
    pending = fillings_of(state.properties, state.schema)
    going = next((pending[name] for name in names if name in pending), None)
    return state.schema if going is None else state.schemas[going.schema_id]


def _made(context: Context, state: TableState, compute: Function) -> pa.Schema:
    """The columns that a function makes, from a call with the first rows."""
    scan = Scan(
        context.catalog,
        context.store,
        context.vectors,
        state,
        columns=list(compute.reads),
        limit=_SAMPLE_ROWS,
        pins=context.pins,
    )
    made = compute.result(scan.to_arrow())
    arrays = {name: one if isinstance(one, pa.Array | pa.ChunkedArray) else pa.array(one) for name, one in made.items()}
    if null := [name for name, one in arrays.items() if pa.types.is_null(one.type)]:
        raise InvalidInput(f"The first values of column {null[0]!r} are null, so its type is unknown: pass `schema`.")
    return pa.schema([pa.field(name, one.type) for name, one in arrays.items()])


def _columns(schema: Schema) -> list[NewColumn]:
    return [(field.name, field.field_type) for field in schema.fields]


def _as_table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, list):
        return pa.Table.from_pylist(data)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data).read_all()
    raise InvalidInput(
        "add_columns takes a function, or Arrow data: a Table, a RecordBatch, a RecordBatchReader, a list of dicts, "
        "or any object with an Arrow stream."
    )


__all__ = ["add_computed", "add_from_function", "add_from_rows", "compute_again"]
