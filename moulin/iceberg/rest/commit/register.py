"""Registers tables: a dropped table of the lake, or one that other software wrote into the lake's storage.

The first is restored. Of the second, the rows of the current snapshot are copied, as in a commit; its files are kept.
Nothing outside of the lake's storage is read.
"""

# Decisions: docs/decisions/0113

from __future__ import annotations

import json
import logging
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import ValidationError as PydanticValidationError
from pyiceberg.exceptions import ValidationError
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.objects.tables import NewTable
from moulin.errors import AlreadyExists, InvalidInput, MoulinError, NotFound, Unsupported
from moulin.iceberg.format import metadata as documents
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.locations import location
from moulin.iceberg.format.pyiceberg_values import from_pyiceberg_order, from_pyiceberg_schema, from_pyiceberg_spec
from moulin.iceberg.rest import namespaces
from moulin.iceberg.rest.commit.create import as_state
from moulin.iceberg.rest.commit.engine_files import Folder
from moulin.iceberg.rest.commit.intake import copy_in
from moulin.iceberg.rest.commit.locations import spellings
from moulin.iceberg.rest.commit.updates import checked_properties
from moulin.iceberg.rest.requests import Body, LakeOf, field
from moulin.iceberg.rest.tables import already_exists, loaded, taken_by
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.ids import new_id
from moulin.model.layout.partition import FIRST_FIELD_ID
from moulin.model.layout.partition_spec import PartitionSpec
from moulin.model.layout.sort_order import SortOrder
from moulin.model.names import check_name, full_name
from moulin.model.operations import Restore
from moulin.model.schema.values import Schema
from moulin.storage import paths

log = logging.getLogger("moulin.iceberg.rest")
router = APIRouter()


@router.post("/namespaces/{namespace}/register")
def register_table(lake: LakeOf, namespace: str, body: Body) -> Response:
    database = namespaces.find(lake, namespace).name
    name = check_name(field(body, "name", str), "table")
    if field(body, "overwrite", bool, False):
        raise Unsupported("Registering does not replace a table: drop the other one first.")
    where = field(body, "metadata-location", str)
    path = path_in_lake(lake, where)
    if taken_by(lake, database, name):
        raise already_exists(lake, "Table", database, name)
    found = paths.parse_metadata(path)
    mine = None if found is None else _bring_back(lake, database, name, *found)
    return loaded(lake, mine or _copy(lake, database, name, where, path))


def path_in_lake(lake: Lake, where: str) -> str:
    """The path of an address in the lake's own storage; Unsupported when it lies elsewhere."""
    root = location(lake.store, "x").removesuffix("x")
    for prefix in spellings(root):
        if where.startswith(prefix):
            return paths.checked(where.removeprefix(prefix))
    raise Unsupported(
        f"{where!r} does not lie in the lake's storage, {root}: copy the table there, or insert its rows."
    )


def _bring_back(lake: Lake, database: str, name: str, table_id: Any, version: int) -> TableState | None:
    """A dropped table of the lake, at the version of its metadata; None when it is no table of the lake any more."""
    catalog = lake.own_catalog()
    try:
        entry = catalog.table_entry(table_id)
    except NotFound:
        entry = None
    if entry is not None:
        raise AlreadyExists(f"This is table {full_name(entry.database, entry.name)} of the lake: rename it instead.")
    mine = {found.id for found in lake.databases(include_dropped=True)}
    for one in catalog.tombstones():
        if one.kind == "table" and one.id == table_id and one.database_id in mine:
            catalog.resurrect_table(one.database_id, table_id)
            catalog.rename_table(one.database_id, table_id, database, name)
            state = catalog.table_by_id(table_id)
            if version < state.head_version:
                catalog.commit([TableCommit(table_id, state.version, Restore(version), {"engine": "iceberg-rest"})])
            return catalog.table_by_id(table_id)
    return None


def _copy(lake: Lake, database: str, name: str, where: str, path: str) -> TableState:
    """A new table with the rows of a foreign one's current snapshot."""
    metadata = _metadata(lake, path)
    catalog, new = lake.own_catalog(), _described(metadata)
    folder = Folder(lake.store, _folder(lake, metadata))
    snapshot = metadata.current_snapshot()
    state = catalog.create_table(database, name, new)
    try:
        if snapshot is not None:
            given: Json = json.loads(snapshot.model_dump_json(by_alias=True))
            taken = copy_in(lake.context, state, folder, given, {metadata.default_spec_id: state.spec_id})
            if taken is not None:
                summary = {"engine": "iceberg-rest", "registered": where}
                catalog.commit([TableCommit(state.id, state.version, taken, summary, expected_head=state.head_version)])
    except BaseException:
        try:
            catalog.drop_table(database, state.id, immediate=True)
        except MoulinError as error:
            log.warning("a table of a failed request stays", extra={"table": str(state.id), "error": error.message})
        raise
    return catalog.table_by_id(state.id)


def _metadata(lake: Lake, path: str) -> TableMetadata:
    try:
        return TableMetadataUtil.parse_raw(lake.store.get(path).decode())
    except NotFound:
        raise InvalidInput(f"{path} is not there.") from None
    except (ValidationError, ValueError, TypeError, LookupError) as error:
        raise InvalidInput(f"{path} is no Iceberg metadata: {_fault(error)}.") from None


def _fault(error: Exception) -> str:
    """What is wrong with a file, without a word of what is in it: it may be any file of the lake's storage.

    Of a document that is nearly one of ours, the field is named: the first part of its place is the format version,
    the second a field of the specification, and only those behind may be the file's own words.
    """
    if isinstance(error, UnicodeDecodeError):
        return "it is not text"
    if not isinstance(found := error.__cause__, PydanticValidationError):
        return "it is not a document of format version 1, 2 or 3"
    first = found.errors(include_input=False, include_url=False)[0]
    if first["type"] == "json_invalid":
        return "it is not JSON"
    if len(first["loc"]) < 2:
        return "it is not a document of format version 1, 2 or 3"
    return f"its field {first['loc'][1]} is missing or not as the specification has it"


def _folder(lake: Lake, metadata: TableMetadata) -> str:
    """The folder of a foreign table; it is not that of the lake itself, nor of one of its tables."""
    folder = path_in_lake(lake, metadata.location.rstrip("/"))
    if not folder or folder.split("/")[0] in (paths.tables_prefix(), paths.lake_manifests_prefix()):
        raise InvalidInput(f"{metadata.location} is not a folder that belongs to one table.")
    return folder


def _described(metadata: TableMetadata) -> NewTable:
    """The table to be made. Columns and partition fields keep their ids: files are read by them."""
    if metadata.format_version not in (2, 3):
        raise Unsupported(f"Format version {metadata.format_version} is not registered: upgrade the table to 2.")
    given = from_pyiceberg_schema(metadata.schema())
    schema = Schema(*given.fields, schema_id=0, identifier_field_ids=given.identifier_field_ids)
    if given.identifier_field_ids:
        raise Unsupported("A table with identifier fields would be a keyed one, and its files could hold a key twice.")
    spec = PartitionSpec(*from_pyiceberg_spec(metadata.spec()).fields, spec_id=0)
    order = from_pyiceberg_order(metadata.sort_order())
    properties = {documents.FORMAT_PROPERTY: str(metadata.format_version), **checked_properties(metadata.properties)}
    new = NewTable(
        schema,
        metadata.last_column_id,
        spec,
        max(metadata.last_partition_id or 0, FIRST_FIELD_ID - 1),
        SortOrder(*order.fields, order_id=1 if order.fields else 0),
        None,
        properties,
        new_id(),
    )
    documents.format_version(as_state("", "", new))
    return new


__all__ = ["router"]
