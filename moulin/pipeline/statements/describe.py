"""DESCRIBE: what a table or database of the lake is like. Spark describes the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from moulin.errors import NotFound
from moulin.model.entities import TableState
from moulin.model.schema.schema import find_column, key_names
from moulin.model.schema.values import NestedField
from moulin.model.tags import shown
from moulin.pipeline.read.columns import shown_type
from moulin.pipeline.read.metadata import metadata_of
from moulin.pipeline.sql.catalyst import LogicalPlan, name_parts
from moulin.pipeline.sql.names import named_by
from moulin.pipeline.statements.answer import Answer, rows
from moulin.pipeline.statements.create_text import partition_fields, sort_fields
from moulin.pipeline.statements.definitions import COMMENT
from moulin.pipeline.statements.grammar import Own
from moulin.pipeline.statements.session import Session
from moulin.pipeline.statements.show import PROVIDER, state_of
from moulin.pipeline.statements.spelling import column_named, database_of

_COLUMNS = {"col_name": pa.string(), "data_type": pa.string(), "comment": pa.string()}
_FACTS = {"info_name": pa.string(), "info_value": pa.string()}


def table(session: Session, plan: LogicalPlan) -> Answer:
    """DESCRIBE [TABLE] [EXTENDED | FORMATTED] t"""
    state = _lake_table(session, plan)
    if state is None:
        return session.query(plan)
    found = [(field.name, shown_type(field.field_type).simpleString(), field.doc) for field in state.schema.fields]
    if plan.isExtended():
        found += [("", "", ""), ("# Detailed Table Information", "", "")]
        found += [(name, value, "") for name, value in _facts(session, state)]
    return rows(_COLUMNS, found)


def column(session: Session, plan: LogicalPlan) -> Answer:
    """DESCRIBE t column"""
    state = _lake_table(session, plan)
    if state is None or plan.isExtended() or plan.column().nodeName() != "UnresolvedAttribute":
        return session.query(plan)
    parts = [str(part) for part in plan.column().nameParts().mkString("\0").split("\0")]
    field = find_column(state.schema, column_named(session, state.schema, parts))
    kind = shown_type(field.field_type).simpleString()
    return rows(_FACTS, [("col_name", field.name), ("data_type", kind), ("comment", field.doc or "NULL")])


def history(session: Session, statement: Own) -> Answer:
    """DESCRIBE HISTORY t [LIMIT n]: newest first"""
    found = metadata_of(session.lake, state_of(session, list(statement.table)), "history")
    limit = statement.values["limit"]
    return found if limit is None else found.slice(0, limit)


def database(session: Session, plan: LogicalPlan) -> Answer:
    """DESCRIBE DATABASE [EXTENDED] d"""
    name = database_of(session, plan.namespace())
    found = session.lake.catalog.database(name)
    properties = dict(found.properties)
    facts = [("Catalog Name", "moulin"), ("Namespace Name", found.name), ("Comment", properties.pop(COMMENT, ""))]
    if plan.extended():
        facts.append(("Properties", _pairs(properties)))
    return rows(_FACTS, facts)


def _lake_table(session: Session, plan: LogicalPlan) -> TableState | None:
    """The lake table that is described; None for views, metadata and what is Spark's."""
    parts = name_parts(plan.relation())
    reference = None if parts is None else named_by(parts)
    if parts is None or reference is None or reference.part is not None:
        return None
    try:
        return state_of(session, parts)
    except NotFound:
        return None


def _facts(session: Session, state: TableState) -> Iterator[tuple[str, str]]:
    entry = session.lake.catalog.table_entry(state.id)
    properties = dict(shown(state.properties))
    comment = properties.pop(COMMENT, "")
    yield "Name", f"moulin.{state.full_name}"
    yield "Id", str(state.id)
    yield "Type", "MANAGED"
    yield "Provider", PROVIDER
    yield "Comment", comment
    yield "Version", str(state.head_version)
    yield "Oldest version", str(state.oldest_version)
    yield "Created", _time(state.created_at)
    yield "Rows", str(entry.rows)
    yield "Bytes", str(entry.bytes)
    yield "Segments", str(entry.segments)
    yield "Primary key", ", ".join(key_names(state.schema))
    yield "Partitioning", ", ".join(partition_fields(state))
    yield "Sort order", ", ".join(sort_fields(state))
    yield "Event time", _name(state.event_time_field)
    yield "Not null", ", ".join(field.name for field in state.schema.fields if field.required)
    yield "Properties", _pairs(properties)


def _name(field: NestedField | None) -> str:
    return "" if field is None else field.name


def _pairs(properties: Mapping[str, Any]) -> str:
    return f"[{', '.join(f'{key}={value}' for key, value in sorted(properties.items()))}]"


def _time(nanos: int) -> str:
    return datetime.fromtimestamp(nanos // 1_000_000_000, UTC).isoformat()
