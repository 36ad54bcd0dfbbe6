"""ALTER TABLE and COMMENT ON: columns, properties, partitioning, sort order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from moulin.errors import InvalidInput, NotFound, Unsupported
from moulin.model.entities import TableState
from moulin.model.names import check_column_name
from moulin.model.schema import change as changes
from moulin.model.schema.schema import find_column
from moulin.model.schema.values import NestedField, Schema
from moulin.pipeline.sql.catalyst import LogicalPlan, content, items, python_type, texts
from moulin.pipeline.statements.answer import Answer, nothing
from moulin.pipeline.statements.columns import default_value, lake_type, with_default
from moulin.pipeline.statements.create_text import partition_fields
from moulin.pipeline.statements.definitions import (
    COLUMN_TYPE,
    COMMENT,
    EVENT_TIME,
    SORT_BY,
    partition_text,
    sort_texts,
)
from moulin.pipeline.statements.grammar import Own
from moulin.pipeline.statements.session import Session
from moulin.pipeline.statements.spelling import column_named, table_name

_FIRST = "FIRST"


def add_columns(session: Session, plan: LogicalPlan) -> Answer:
    """ALTER TABLE t ADD COLUMNS (...)"""
    table = session.table(plan.table())
    schema = table.state().schema
    table.alter(*(change for column in items(plan.columnsToAdd()) for change in _added(session, schema, column)))
    return nothing()


def drop_columns(session: Session, plan: LogicalPlan) -> Answer:
    """ALTER TABLE t DROP COLUMNS [IF EXISTS] (...)"""
    table = session.table(plan.table())
    schema = table.state().schema
    names = []
    for column in items(plan.columnsToDrop()):
        try:
            names.append(column_named(session, schema, _parts(column)))
        except NotFound:
            if not plan.ifExists():
                raise
    if names:
        table.alter(*map(changes.DropColumn, names))
    return nothing()


def rename_column(session: Session, plan: LogicalPlan) -> Answer:
    """ALTER TABLE t RENAME COLUMN a TO b"""
    table = session.table(plan.table())
    name = column_named(session, table.state().schema, _parts(plan.column()))
    table.rename_column(name, plan.newName())
    return nothing()


def alter_columns(session: Session, plan: LogicalPlan) -> Answer:
    """ALTER TABLE t ALTER COLUMN a ..., and COMMENT ON COLUMN t.a IS ..."""
    table = session.table(plan.table())
    schema = table.state().schema
    found = [change for spec in items(plan.specs()) for change in _altered(session, schema, spec)]
    if found:
        table.alter(*found)
    return nothing()


def set_properties(session: Session, plan: LogicalPlan) -> Answer:
    """ALTER TABLE t SET TBLPROPERTIES (...)"""
    table, properties = session.table(plan.table()), texts(plan.properties())
    for name in properties:
        if name == SORT_BY:
            raise InvalidInput("Change the sort order with ALTER TABLE ... WRITE ORDERED BY column, ....")
        if name == EVENT_TIME or name.startswith(COLUMN_TYPE):
            raise InvalidInput(
                f"{name!r} can only be set when a table is created: use CREATE OR REPLACE TABLE ... AS SELECT."
            )
    table.set_properties(properties)
    return nothing()


def unset_properties(session: Session, plan: LogicalPlan) -> Answer:
    """ALTER TABLE t UNSET TBLPROPERTIES [IF EXISTS] (...)"""
    table = session.table(plan.table())
    keys, known = [str(key) for key in items(plan.propertyKeys())], table.properties
    missing = [key for key in keys if key not in known]
    if missing and not plan.ifExists():
        raise NotFound(f"Table {table.name} has no property {missing[0]!r}: remove it, or add IF EXISTS.")
    present = [key for key in keys if key in known]
    if present:
        table.set_properties({}, remove=present)
    return nothing()


def comment_on_table(session: Session, plan: LogicalPlan) -> Answer:
    """COMMENT ON TABLE t IS 'text' | NULL"""
    table, comment = session.table(plan.table()), plan.comment()
    if comment:
        table.set_properties({COMMENT: comment})
    elif COMMENT in table.properties:
        table.set_properties({}, remove=[COMMENT])
    return nothing()


def cluster_by(session: Session, plan: LogicalPlan) -> Answer:
    """ALTER TABLE t CLUSTER BY (...) | NONE"""
    table, spec = session.table(plan.table()), content(plan.clusterBySpec())
    columns = [] if spec is None else [list(one.fieldNames()) for one in items(spec.columnNames())]
    schema = table.state().schema
    table.set_sort_order([column_named(session, schema, column) for column in columns])
    return nothing()


def write_order(session: Session, statement: Own) -> Answer:
    """ALTER TABLE t WRITE ORDERED BY ... | WRITE UNORDERED"""
    table = session.named(table_name(statement.table))
    table.set_sort_order(sort_texts(session, table.state().schema, statement.values["keys"]))
    return nothing()


def partition_field(session: Session, statement: Own) -> Answer:
    """ALTER TABLE t ADD | DROP | REPLACE PARTITION FIELD ..."""
    table, action = session.named(table_name(statement.table)), statement.values["action"]
    state = table.state()
    fields = partition_fields(state)
    if action != "add":
        index = _field_index(session, state, fields, statement.values["field"])
        fields[index : index + 1] = []
    if action != "drop":
        new = _partition_text(session, state.schema, statement.values["field" if action == "add" else "new"])
        if new in fields:
            raise InvalidInput(f"Table {state.full_name} is already partitioned by {new}.")
        fields.append(new)
    table.set_partitioning(fields)
    return nothing()


def replace_columns(session: Session, plan: LogicalPlan) -> Answer:
    """ALTER TABLE t REPLACE COLUMNS (...)"""
    session.table(plan.table())
    raise Unsupported(
        "REPLACE COLUMNS is not supported, because it would lose rows: add, drop, rename or alter columns by name."
    )


def change_constraint(session: Session, plan: LogicalPlan) -> Answer:
    """ALTER TABLE t ADD | DROP CONSTRAINT ..."""
    session.table(plan.table())
    raise Unsupported(
        "A primary key can only be set when a table is created: use CREATE TABLE ... PRIMARY KEY (...) AS SELECT."
    )


def _parts(column: Any) -> list[str]:
    return [str(part) for part in items(column.name())]


def _added(session: Session, schema: Schema, column: Any) -> Iterator[changes.SchemaChange]:
    leaf = check_column_name(column.colName())
    parent = content(column.path())
    path = leaf if parent is None else f"{column_named(session, schema, _parts(parent))}.{leaf}"
    kind = lake_type(python_type(column.dataType()), f"column {leaf}")
    field = NestedField(0, leaf, kind, not column.nullable(), content(column.comment()))
    field = with_default(session, field, content(column.default()))
    yield changes.AddColumn(path, kind, field.write_default, field.required, field.doc)
    yield from _moved(session, schema, path, content(column.position()))


def _altered(session: Session, schema: Schema, spec: Any) -> Iterator[changes.SchemaChange]:
    name = column_named(session, schema, _parts(spec.column()))
    kind, nullable, comment = (content(one) for one in (spec.newDataType(), spec.newNullability(), spec.newComment()))
    if kind is not None:
        wanted = lake_type(python_type(kind), f"column {name}")
        if wanted != find_column(schema, name).field_type:
            yield changes.WidenColumn(name, wanted)
    if nullable is not None and nullable:
        yield changes.SetNullable(name)
    elif nullable is not None and not find_column(schema, name).required:
        yield changes.SetRequired(name)
    if comment is not None or spec.dropComment():
        yield changes.SetDoc(name, comment or None)
    default = content(spec.newDefaultExpression())
    if default is not None or spec.dropDefault():
        yield _default(session, schema, name, default)
    yield from _moved(session, schema, name, content(spec.newPosition()))


def _default(session: Session, schema: Schema, name: str, default: Any) -> changes.SchemaChange:
    field = find_column(schema, name)
    if field not in schema.fields:
        raise Unsupported(f"{name} is inside a column: only whole columns can have a default.")
    value = None if default is None else default_value(session, default.child(), field)
    return changes.SetDefault(name, field.field_type, value)


def _moved(session: Session, schema: Schema, name: str, position: Any) -> Iterator[changes.SchemaChange]:
    """FIRST or AFTER a sibling, which the same statement may have added."""
    if position is None:
        return
    if str(position.position().toString()) == _FIRST:
        yield changes.MoveColumn(name, first=True)
        return
    sibling = str(position.position().column())
    with suppress(NotFound):
        sibling = column_named(session, schema, [*name.split(".")[:-1], sibling]).rpartition(".")[2]
    yield changes.MoveColumn(name, after=sibling)


def _partition_text(session: Session, schema: Schema, field: tuple[str | None, int | None, Sequence[str]]) -> str:
    transform, number, column = field
    text = partition_text(session, schema, transform, number, column)
    return text if transform is None else _singular(text)


def _singular(text: str) -> str:
    """days(ts) as day(ts), which is what specs call it."""
    name, bracket, rest = text.partition("(")
    plain = name.lower()
    return f"{plain.removesuffix('s') if plain in ('years', 'months', 'days', 'hours') else plain}{bracket}{rest}"


def _field_index(
    session: Session, state: TableState, fields: Sequence[str], wanted: tuple[str | None, int | None, Sequence[str]]
) -> int:
    """Which field of the partitioning is meant, by its transform or by its name."""
    names = [field.name.lower() for field in state.spec.fields]
    if wanted[0] is None and len(wanted[2]) == 1 and wanted[2][0].lower() in names:
        return names.index(wanted[2][0].lower())
    text = _partition_text(session, state.schema, wanted)
    if text not in fields:
        known = ", ".join(fields) or "nothing"
        raise NotFound(f"Table {state.full_name} is not partitioned by {text}: it is partitioned by {known}.")
    return fields.index(text)
