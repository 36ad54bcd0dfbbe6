"""Creates tables, at once or staged: a staged table has an id and a location, and exists after a commit with
assert-create.
"""

# Decisions: docs/decisions/0068

from __future__ import annotations

import time
from dataclasses import replace
from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from moulin.catalog.objects.tables import NewTable
from moulin.errors import AlreadyExists, InvalidInput, Unsupported
from moulin.iceberg.format import metadata as documents
from moulin.iceberg.format.locations import table_location
from moulin.iceberg.rest import namespaces
from moulin.iceberg.rest.commit import shapes
from moulin.iceberg.rest.commit.locations import asked_location, make_location
from moulin.iceberg.rest.commit.updates import Wanted, new_properties
from moulin.iceberg.rest.credentials import Borrower, BorrowerOf, lend
from moulin.iceberg.rest.requests import Body, LakeOf, field, texts
from moulin.iceberg.rest.tables import already_exists, credentials_path, loaded, taken_by
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.ids import new_id
from moulin.model.key.key import with_key
from moulin.model.layout.partition_spec import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from moulin.model.layout.sort import parse_sort
from moulin.model.layout.sort_order import UNSORTED_SORT_ORDER, SortOrder
from moulin.model.names import check_name
from moulin.model.region_spec import RegionSpec
from moulin.model.schema.schema import key_names, make_schema
from moulin.model.schema.values import Schema
from moulin.model.tags import LOCATION
from moulin.storage import modes, paths
from moulin.table.context import Context

router = APIRouter()


@router.post("/namespaces/{namespace}/tables")
def create_table(lake: LakeOf, borrower: BorrowerOf, namespace: str, body: Body) -> Response:
    database = namespaces.find(lake, namespace).name
    name = check_name(field(body, "name", str), "table")
    schema = shapes.read_schema(field(body, "schema", dict))
    spec, order = field(body, "partition-spec", dict, None), field(body, "write-order", dict, None)
    new = describe(
        schema,
        None if spec is None else shapes.read_spec(spec),
        None if order is None else shapes.read_order(order),
        new_properties(texts(body, "properties")),
        new_id(),
    )
    new = placed(lake.context, new, field(body, "location", str, None))
    if field(body, "stage-create", bool, False):
        return _staged(lake, borrower, database, name, new)
    assert new.id is not None
    make_location(lake.context, new.properties.get(LOCATION))
    lent = lend(lake, borrower, new.id, credentials_path(lake, database, name))  # before: it may fail
    try:
        made = lake.own_catalog().create_table(database, name, new)
    except AlreadyExists as error:
        raise already_exists(lake, "Table", database, name) from error
    return loaded(lake, made, lent=lent)


def describe(
    given: Schema, spec: PartitionSpec | None, order: SortOrder | None, properties: dict[str, str], table_id: UUID
) -> NewTable:
    """A new table; its columns are numbered from 1. A schema with identifier fields makes a keyed table."""
    schema = make_schema(given)
    if keys := key_names(schema):
        schema = with_key(schema, keys)
        if order is not None and order.fields:
            raise Unsupported("A schema with identifier fields makes a keyed table, which is sorted by its key.")
        sorting = parse_sort(list(keys), schema)
    else:
        sorting = shapes.new_order(order or UNSORTED_SORT_ORDER, given, schema)
    made, last = shapes.new_spec(spec or UNPARTITIONED_PARTITION_SPEC, given, schema)
    new = NewTable(schema, schema.highest_field_id, made, last, sorting, None, properties, table_id)
    RegionSpec.of(schema, properties)
    documents.format_version(as_state("", "", new))
    return new


def placed(context: Context, new: NewTable, where: str | None) -> NewTable:
    """The table with the location that an engine asks for, if it does."""
    assert new.id is not None
    asked = asked_location(context, new.id, where)
    return new if asked is None else replace(new, properties={**new.properties, LOCATION: asked})


def from_updates(context: Context, wanted: Wanted) -> NewTable:
    """The table that the updates of a commit with assert-create describe."""
    if wanted.uuid is None:
        table_id = new_id()
    else:
        try:
            table_id = UUID(wanted.uuid)
        except ValueError:
            raise InvalidInput(f"{wanted.uuid!r} is no UUID.") from None
    if not isinstance(wanted.schema, Schema):
        raise InvalidInput("A new table needs add-schema and set-current-schema.")
    first = wanted.schemas[0]  # later updates of the transaction are changes of the new table
    properties = dict(wanted.set)
    if wanted.format_version is not None:
        properties[documents.FORMAT_PROPERTY] = str(wanted.format_version)
    spec = wanted.specs[0] if isinstance(wanted.spec, PartitionSpec) else None
    order = wanted.orders[0] if isinstance(wanted.order, SortOrder) else None
    new = describe(first, spec, order, new_properties(properties), table_id)
    if not shapes.same_fields(new.schema, first):
        raise InvalidInput("The columns of a new table have the ids that staging it gave: top-level ones from 1 on.")
    return placed(context, new, wanted.location)


def as_state(database: str, name: str, new: NewTable) -> TableState:
    """The state of the new table before it is committed."""
    assert new.id is not None
    return TableState(
        id=new.id,
        database=database,
        name=name,
        version=0,
        head_version=0,
        created_version=0,
        oldest_version=0,
        created_at=time.time_ns(),
        schemas={new.schema.schema_id: new.schema},
        schema_id=new.schema.schema_id,
        specs={new.spec.spec_id: new.spec},
        spec_id=new.spec.spec_id,
        sort_orders={new.sort_order.order_id: new.sort_order},
        sort_order_id=new.sort_order.order_id,
        event_time=None,
        last_column_id=new.last_column_id,
        last_partition_id=new.last_partition_id,
        last_sequence=0,
        next_row_id=0,
        properties=new.properties,
    )


def _staged(lake: Lake, borrower: Borrower, database: str, name: str, new: NewTable) -> Response:
    if taken_by(lake, database, name):
        raise already_exists(lake, "Table", database, name)
    state = as_state(database, name, new)
    address = table_location(lake.store, state)
    _make_folders(lake, state.id)
    make_location(lake.context, state.properties.get(LOCATION))
    chosen = documents.format_version(state)
    metadata = documents.table_metadata(state, chosen, address, state.created_at, [], [])
    body = {"metadata": metadata, "config": {}}
    lent = lend(lake, borrower, state.id, credentials_path(lake, database, name))
    return JSONResponse(body if lent is None else lent.join(body))


def _make_folders(lake: Lake, table_id: UUID) -> None:
    """Create the folders of a staged table, because some engines do not."""
    for prefix in (paths.metadata_prefix(table_id), paths.data_prefix(table_id)):
        folder = lake.store.local_path(prefix)
        if folder is not None:
            for one in (folder.parent.parent, folder.parent, folder):
                modes.make_folder(one)
