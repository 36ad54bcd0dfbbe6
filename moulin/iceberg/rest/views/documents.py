"""A view as Iceberg's metadata, and versions of requests as the lake's.

No file is written: the catalog has it all. The metadata address identifies the view and its state, and registering it
restores the view.
"""

# Decisions: docs/decisions/0500

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from moulin.errors import InvalidInput
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.locations import location
from moulin.iceberg.format.metadata import schema_json
from moulin.iceberg.rest.errors import RestError
from moulin.iceberg.rest.requests import field, texts
from moulin.lake import Lake
from moulin.model import view_history
from moulin.model.entities import SPARK, Representation, View, ViewHistory, ViewVersion
from moulin.model.names import quote
from moulin.storage import paths

COMMENT: Final = "comment"
"""The property that is the description of a view."""
METADATA_PATH: Final = "write.metadata.path"
_DIALECTS = {SPARK: "`", "duckdb": '"'}
_NAMED = re.compile(r"/\d{5,10}-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.metadata\.json$")


def history_of(lake: Lake, view: View) -> ViewHistory:
    """The versions of a view: a union, and a query that never changed, have one."""
    if view.query is None:
        return _union(lake, view)
    return view.query.history or view_history.begun(view.query, view.database, view.created_at)


def properties_of(view: View) -> dict[str, str]:
    """The properties of a view as engines see them."""
    own = {} if view.query is None else dict(view.query.properties)
    return own if view.description is None else {**own, COMMENT: view.description}


def loaded(lake: Lake, view: View) -> Json:
    """The answer that shows a view."""
    history, properties = history_of(lake, view), properties_of(view)
    where = history.location or location(lake.store, f"{paths.tables_prefix()}/views/{view.id}")
    folder = properties.get(METADATA_PATH) or f"{where}/metadata"
    counted = 0 if view.query is None else view.query.version
    metadata: Json = {
        "view-uuid": history.uuid or str(view.id),
        "format-version": 1,
        "location": where,
        "current-version-id": history.current_id,
        "versions": [_version_json(one) for one in history.versions],
        "version-log": [{"timestamp-ms": at, "version-id": version_id} for at, version_id in history.log],
        "schemas": [schema_json(schema, 3) for schema in history.schemas],
        "properties": properties,
    }
    named = f"{folder.rstrip('/')}/{counted:05d}-{view.id}.metadata.json"
    return {"metadata-location": named, "metadata": metadata, "config": {}}


def named_view(address: str) -> UUID | None:
    """The id of the view whose metadata has this address; None when it is not one that `loaded` shows."""
    found = _NAMED.search(address)
    return None if found is None else UUID(found[1])


def read_version(document: Json) -> ViewVersion:
    """A version of a request."""
    given = field(document, "representations", list)
    if not all(isinstance(one, dict) for one in given):
        raise InvalidInput("A representation of a view is a JSON object.")
    if others := sorted({str(one.get("type")) for one in given} - {"sql"}):
        raise InvalidInput(f"Found unsupported view representations: [{', '.join(others)[:200]}]")
    namespace = field(document, "default-namespace", list)
    if not all(isinstance(part, str) for part in namespace):
        raise InvalidInput("'default-namespace' is an array of strings.")
    version = ViewVersion(
        field(document, "version-id", int),
        field(document, "timestamp-ms", int),
        field(document, "schema-id", int),
        texts(document, "summary"),
        tuple(Representation(field(one, "dialect", str), field(one, "sql", str)) for one in given),
        tuple(namespace),
        field(document, "default-catalog", str, None),
    )
    try:
        view_history.check_dialects(version.representations)
    except InvalidInput as error:
        raise RestError(400, "IllegalArgumentException", error.message) from error  # the type that clients look for
    return version


def _version_json(version: ViewVersion) -> Json:
    shown: Json = {
        "version-id": version.version_id,
        "timestamp-ms": version.timestamp_ms,
        "schema-id": version.schema_id,
        "summary": dict(version.summary),
        "default-namespace": list(version.default_namespace),
        "representations": [{"type": "sql", "dialect": one.dialect, "sql": one.sql} for one in version.representations],
    }
    return shown if version.default_catalog is None else {**shown, "default-catalog": version.default_catalog}


def _union(lake: Lake, view: View) -> ViewHistory:
    """Its columns are those of its first table, and another list of tables is another version."""
    schema = lake.catalog.table_by_id(view.members[0].id).schema
    members = hashlib.sha256(repr(view.members).encode()).digest()
    number, at = 1 + int.from_bytes(members[:3], "big"), view.created_at // 1_000_000
    shown = tuple(Representation(name, _sql(view, schema.column_names, mark)) for name, mark in _DIALECTS.items())
    summary: dict[str, Any] = {"engine-name": "moulin"}
    version = ViewVersion(number, at, schema.schema_id, summary, shown, (view.database,))
    return ViewHistory(number, (version,), ((at, number),), (schema,))


def _sql(view: View, columns: Sequence[str], mark: str) -> str:
    def spelled(name: str) -> str:
        return quote(name) if mark == "`" else mark + name.replace(mark, mark * 2) + mark

    shown = ", ".join(spelled(name) for name in columns if "." not in name)
    return " UNION ALL ".join(f"SELECT {shown} FROM {spelled(table.name)}" for table in view.members)
