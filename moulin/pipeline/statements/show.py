"""SHOW statements. Columns have the same names as in Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from moulin.errors import InvalidInput, Unsupported
from moulin.model.entities import TableState, View
from moulin.model.names import full_name, matches_pattern
from moulin.model.schema.values import NestedField
from moulin.pipeline.read.columns import shown_type
from moulin.pipeline.read.metadata import metadata_of
from moulin.pipeline.sql.catalyst import CATALOG, LogicalPlan, content, items
from moulin.pipeline.statements.answer import Answer, rows
from moulin.pipeline.statements.create_text import create_text
from moulin.pipeline.statements.session import Session
from moulin.pipeline.statements.spelling import database_of, parts_of, table_named
from moulin.pipeline.statements.views import is_view, show_create_view

PROVIDER = "iceberg"
"""What tools are told about the format of a table: they choose statements by it, and it is what engines see."""

_TEXT, _FLAG = pa.string(), pa.bool_()


def catalogs(session: Session, plan: LogicalPlan) -> Answer:
    """SHOW CATALOGS [LIKE '...']"""
    return rows({"catalog": _TEXT}, ((name,) for name in _like([CATALOG], content(plan.pattern()))))


def databases(session: Session, plan: LogicalPlan) -> Answer:
    """SHOW DATABASES | SCHEMAS | NAMESPACES [LIKE '...']"""
    below = parts_of(plan.child())
    if [part.lower() for part in below] not in ([], [CATALOG]):
        raise InvalidInput("Databases have no databases: use SHOW DATABASES.")
    names = (database.name for database in session.lake.databases())
    return rows({"namespace": _TEXT}, ((name,) for name in _like(names, content(plan.pattern()))))


def tables(session: Session, plan: LogicalPlan) -> Answer:
    """SHOW TABLES IN d [LIKE '...']"""
    database = _database(session, plan, "TABLES")
    names = _like((table.name for table in session.lake.tables(database)), content(plan.pattern()))
    columns = {"namespace": _TEXT, "tableName": _TEXT, "isTemporary": _FLAG}
    return rows(columns, ((database, name, False) for name in names))


def tables_extended(session: Session, plan: LogicalPlan) -> Answer:
    """SHOW TABLE EXTENDED IN d LIKE '...': tables and views, each with what Spark's tools read about it"""
    if plan.nodeName() != "ShowTablesExtended":
        raise Unsupported(
            "SHOW TABLE EXTENDED does not support PARTITION: use SELECT * FROM database.table.partitions."
        )
    database = _database(session, plan, "TABLE EXTENDED")
    found = {view.name: _view_information(view) for view in session.lake.views(database)}
    listed = _like([*found, *(table.name for table in session.lake.tables(database))], str(plan.pattern()))
    columns = {"namespace": _TEXT, "tableName": _TEXT, "isTemporary": _FLAG, "information": _TEXT}
    return rows(
        columns,
        ((database, name, False, found.get(name) or _table_information(session, database, name)) for name in listed),
    )


def _table_information(session: Session, database: str, name: str) -> str:
    state = session.lake.table(full_name(database, name)).state()
    return _information(database, name, "MANAGED", f"Provider: {PROVIDER}\n", state.schema.fields)


def _view_information(view: View) -> str:
    return _information(view.database, view.name, "VIEW", "", () if view.query is None else view.query.schema.fields)


def _information(database: str, name: str, kind: str, more: str, fields: Sequence[NestedField]) -> str:
    tree = StructType([StructField(one.name, shown_type(one.field_type), not one.required) for one in fields])
    return f"Catalog: {CATALOG}\nDatabase: {database}\nTable: {name}\nType: {kind}\n{more}Schema: {tree.treeString()}"


def views(session: Session, plan: LogicalPlan) -> Answer:
    """SHOW VIEWS IN d [LIKE '...']"""
    database = _database(session, plan, "VIEWS")
    names = _like((view.name for view in session.lake.views(database)), content(plan.pattern()))
    columns = {"namespace": _TEXT, "viewName": _TEXT, "isTemporary": _FLAG}
    return rows(columns, ((database, name, False) for name in names))


def create_table(session: Session, plan: LogicalPlan) -> Answer:
    """SHOW CREATE TABLE t"""
    if is_view(session, plan.child()):
        return show_create_view(session, plan)
    return rows({"createtab_stmt": _TEXT}, [(create_text(_state(session, plan)),)])


def columns(session: Session, plan: LogicalPlan) -> Answer:
    """SHOW COLUMNS IN t [IN d]"""
    parts, within = parts_of(plan.child()), content(plan.namespace())
    if within is not None and len(parts) == 1:
        parts = [*(str(part) for part in items(within)), *parts]
    state = state_of(session, parts)
    return rows({"col_name": _TEXT}, ((field.name,) for field in state.schema.fields))


def properties(session: Session, plan: LogicalPlan) -> Answer:
    """SHOW TBLPROPERTIES t [('key')]"""
    reference = table_named(session, parts_of(plan.table()))
    table = session.lake.table(full_name(reference.database, reference.name))
    key, found = content(plan.propertyKey()), table.properties
    if key is None:
        return rows({"key": _TEXT, "value": _TEXT}, sorted(found.items()))
    missing = f"Table {table.name} does not have property: {key}"
    return rows({"key": _TEXT, "value": _TEXT}, [(key, found.get(key, missing))])


def partitions(session: Session, plan: LogicalPlan) -> Answer:
    """SHOW PARTITIONS t"""
    if content(plan.pattern()) is not None:
        raise Unsupported(
            "SHOW PARTITIONS always shows all partitions: filter with SELECT * FROM database.table.partitions WHERE "
            "...."
        )
    state = state_of(session, parts_of(plan.table()))
    if not state.spec.fields and not any(spec.fields for spec in state.specs.values()):
        raise InvalidInput(f"Table {state.full_name} is not partitioned.")
    found = metadata_of(session.lake, state, "partitions").column("partition")
    return rows({"partition": _TEXT}, ((name,) for name in sorted(set(found.to_pylist()))))


def state_of(session: Session, parts: list[str]) -> TableState:
    """The table of this name as it is now."""
    reference = table_named(session, parts)
    return session.lake.table(full_name(reference.database, reference.name)).state()


def _state(session: Session, plan: LogicalPlan) -> TableState:
    return state_of(session, parts_of(plan.child()))


def _database(session: Session, plan: LogicalPlan, what: str) -> str:
    if plan.namespace().nodeName() != "UnresolvedNamespace":
        raise InvalidInput(f"There is no current database: use SHOW {what} IN database.")
    return database_of(session, plan.namespace())


def _like(names: Iterable[str], pattern: str | None) -> list[str]:
    return sorted(name for name in names if matches_pattern(name, pattern))
