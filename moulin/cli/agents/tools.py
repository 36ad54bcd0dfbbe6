"""Tools of an agent: list tables, describe one, and query. Results are limited in rows and bytes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moulin.cli.query.rows import rows_of
from moulin.cli.values import moment
from moulin.errors import InvalidInput, NotFound
from moulin.model.names import full_name, parse_table_name
from moulin.model.rows.texts import json_text

if TYPE_CHECKING:
    from moulin.cli.agents.read_only import ReadOnly
    from moulin.lake import Lake

MOST_TABLES = 1_000
MOST_TEXT = 100_000
_COMMITS = 5


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of results (rows, bytes of JSON) and of query time."""

    rows: int
    bytes: int
    seconds: float


class Tools:
    """Thread-safe: one query runs at a time."""

    def __init__(self, lake: Lake, engine: ReadOnly, bounds: Bounds) -> None:
        self._lake, self._engine, self._bounds = lake, engine, bounds
        self._lock = threading.Lock()

    def list_tables(self, database: str | None = None) -> dict[str, Any]:
        """Tables and views with their sizes, of one database or of all."""
        names = [database] if database else [one.name for one in self._lake.databases()]
        rows: list[dict[str, Any]] = []
        for name in names:
            rows += (
                {"name": full_name(name, one.name), "kind": "table", "rows": one.rows, "bytes": one.bytes}
                for one in self._lake.tables(name)
            )
            rows += ({"name": full_name(name, one.name), "kind": "view"} for one in self._lake.views(name))
        return self._bounded("tables", rows, MOST_TABLES)

    def describe(self, name: str) -> dict[str, Any]:
        """Columns, layout, size and newest commits of a table, or the definition of a view."""
        database, table = parse_table_name(name)
        try:
            state = self._lake.catalog.table(database, table)
        except NotFound:
            view = self._lake.view(name)
            found: dict[str, Any] = {"name": name, "kind": "view", "description": view.description}
            if view.query is None:
                return {**found, "tables": [full_name(database, member.name) for member in view.members]}
            return {
                **found,
                "columns": [{"name": one.name, "type": str(one.field_type)} for one in view.query.schema.fields],
                "sql": {one.dialect: one.sql for one in view.query.representations},
            }
        stats = self._lake.table(name, read_only=True).stats()
        key = set(state.schema.identifier_field_ids)
        return {
            "name": name,
            "kind": "table",
            "version": stats.version,
            "rows": stats.rows,
            "bytes": stats.bytes,
            "columns": [
                {
                    "name": one.name,
                    "type": str(one.field_type),
                    "required": one.required,
                    "primary_key": one.field_id in key,
                    "doc": one.doc,
                }
                for one in state.schema.fields
            ],
            "partitioned_by": stats.partitioning or None,
            "event_time": state.event_time_field.name if state.event_time_field else None,
            "commits": [
                {"version": one.version, "when": moment(one.timestamp_ns), "operation": str(one.kind)}
                for one in self._lake.catalog.history(state.id, _COMMITS)
            ],
        }

    def query(self, sql: str, max_rows: int | None = None) -> dict[str, Any]:
        """Rows of one SELECT. It sees tables and views of the lake, and changes nothing."""
        if len(sql) > MOST_TEXT:
            raise InvalidInput(f"A query has at most {MOST_TEXT:,} characters.")
        if max_rows is not None and max_rows < 1:
            raise InvalidInput("max_rows must be at least 1.")
        most = min(max_rows or self._bounds.rows, self._bounds.rows)
        with self._lock:
            schema, batches = self._engine.run(sql, most + 1, self._bounds.seconds)
        columns = [{"name": one.name, "type": str(one.type)} for one in schema]
        if len(json_text(columns)) > self._bounds.bytes:
            raise InvalidInput("The columns alone are more than an answer may have: name fewer of them.")
        return {"columns": columns, **self._bounded("rows", rows_of(batches), most)}

    def _bounded(self, what: str, rows: Iterable[dict[str, Any]], most: int) -> dict[str, Any]:
        """The first rows that fit; `truncated` is true if there are more."""
        kept: list[Any] = []
        size = 0
        for row in rows:
            text = json_text(row)
            size += len(text.encode())
            if len(kept) == most or size > self._bounds.bytes:
                return {what: kept, "truncated": True}
            kept.append(json.loads(text))
        return {what: kept, "truncated": False}


__all__ = ["Bounds", "Tools"]
