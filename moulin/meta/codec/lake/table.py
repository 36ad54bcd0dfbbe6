"""Tables: entries, states, and new tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any
from uuid import UUID

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.objects.tables import FirstRows, NewTable
from moulin.errors import Corrupt, InvalidInput
from moulin.meta.codec.id import from_message_id
from moulin.meta.codec.lake.commit import from_message_commit, to_message_commit
from moulin.meta.codec.lake.partition import from_message_tuple, to_message_tuple
from moulin.meta.codec.lake.tombstone import from_message_tombstone, to_message_tombstone
from moulin.model.entities import TableEntry, TableState
from moulin.model.layout.partition_spec import spec_from_json, spec_to_json
from moulin.model.layout.sort_order import sort_from_json, sort_to_json
from moulin.model.operations import Append
from moulin.model.schema.documents import schema_from_json, schema_to_json


def to_message_entry(entry: TableEntry) -> pb.TableEntry:
    return pb.TableEntry(
        id=str(entry.id),
        database=entry.database,
        name=entry.name,
        created_at=entry.created_at,
        head_version=entry.head_version,
        segments=entry.segments,
        rows=entry.rows,
        bytes=entry.bytes,
        tombstone=to_message_tombstone(entry.tombstone),
        database_id=str(entry.database_id),
        properties=dict(entry.properties),
    )


def from_message_entry(m: pb.TableEntry) -> TableEntry:
    return TableEntry(
        UUID(m.id),
        m.database,
        m.name,
        m.created_at,
        m.head_version,
        m.segments,
        m.rows,
        m.bytes,
        from_message_tombstone(m),
        UUID(m.database_id),
        dict(m.properties),
    )


def to_message_state(state: TableState) -> pb.TableState:
    return pb.TableState(
        id=str(state.id),
        database=state.database,
        name=state.name,
        version=state.version,
        head_version=state.head_version,
        created_version=state.created_version,
        oldest_version=state.oldest_version,
        created_at=state.created_at,
        schemas={key: _text(value, schema_to_json) for key, value in state.schemas.items()},
        schema_id=state.schema_id,
        specs={key: spec_to_json(value) for key, value in state.specs.items()},
        spec_id=state.spec_id,
        sort_orders={key: sort_to_json(value) for key, value in state.sort_orders.items()},
        sort_order_id=state.sort_order_id,
        event_time=state.event_time,
        last_column_id=state.last_column_id,
        last_partition_id=state.last_partition_id,
        last_sequence=state.last_sequence,
        next_row_id=state.next_row_id,
        properties=dict(state.properties),
        inline=state.inline,
        base_id="" if state.base_id is None else str(state.base_id),
    )


def from_message_state(m: pb.TableState) -> TableState:
    return TableState(
        id=UUID(m.id),
        database=m.database,
        name=m.name,
        version=m.version,
        head_version=m.head_version,
        created_version=m.created_version,
        oldest_version=m.oldest_version,
        created_at=m.created_at,
        schemas={key: _schema(text) for key, text in sorted(m.schemas.items())},
        schema_id=m.schema_id,
        specs={key: _spec(text) for key, text in sorted(m.specs.items())},
        spec_id=m.spec_id,
        sort_orders={key: _sort_order(text) for key, text in sorted(m.sort_orders.items())},
        sort_order_id=m.sort_order_id,
        event_time=m.event_time if m.HasField("event_time") else None,
        last_column_id=m.last_column_id,
        last_partition_id=m.last_partition_id,
        last_sequence=m.last_sequence,
        next_row_id=m.next_row_id,
        properties=dict(m.properties),
        inline=m.inline,
        base_id=UUID(m.base_id) if m.base_id else None,
    )


# Parsing and printing a schema takes a millisecond each, and they never change.
_schema = lru_cache(256)(schema_from_json)
_spec = lru_cache(256)(spec_from_json)
_sort_order = lru_cache(256)(sort_from_json)
_texts: dict[int, tuple[Any, str]] = {}


def _text(value: Any, to_json: Callable[[Any], str]) -> str:
    """The JSON of a value that the catalog hands out again and again; kept with the value, so its id stays its own."""
    kept = _texts.get(id(value))
    if kept is None or kept[0] is not value:
        if len(_texts) > 256:
            _texts.clear()
        kept = _texts[id(value)] = (value, to_json(value))
    return kept[1]


def to_message_new_table(
    database: str, name: str, new: NewTable, first: FirstRows | None = None, replace: bool = False
) -> pb.CreateTableRequest:
    rows, regions = None, list[pb.Region]()
    if first is not None and first.segments:
        assert new.id is not None
        rows = to_message_commit(TableCommit(new.id, 0, first.operation))
        regions = [pb.Region(number=number, value=to_message_tuple(value)) for value, number in first.regions.items()]
    return pb.CreateTableRequest(
        database=database,
        name=name,
        schema_json=schema_to_json(new.schema),
        last_column_id=new.last_column_id,
        spec_json=spec_to_json(new.spec),
        last_partition_id=new.last_partition_id,
        sort_order_json=sort_to_json(new.sort_order),
        event_time=new.event_time,
        properties=dict(new.properties),
        first=rows,
        regions=regions,
        replace=replace,
    )


def from_message_first(m: pb.CreateTableRequest) -> FirstRows | None:
    """The rows that a table is to be made with; None for a table without."""
    if not m.HasField("first"):
        return None
    operation = from_message_commit(m.first).operation
    if not isinstance(operation, Append) or not operation.added or operation.removed or operation.vectors:
        raise InvalidInput("A table can only be created with its own segments.")
    regions = {from_message_tuple(region.value): region.number for region in m.regions}
    if regions and operation.added_vectors:
        raise InvalidInput("A keyed table cannot be created with deleted rows.")
    return FirstRows(operation.added, regions, operation.added_vectors)


def from_message_new_table(m: pb.CreateTableRequest) -> NewTable:
    """A table to be made. What it names by field id must be in its schema."""
    try:
        schema, spec = schema_from_json(m.schema_json), spec_from_json(m.spec_json)
        order = sort_from_json(m.sort_order_json)
    except Corrupt as error:
        raise InvalidInput(f"The table cannot be created: {error.message}") from None
    used = {field.source_id for field in spec.fields} | {field.source_id for field in order.fields}
    used |= {m.event_time} if m.HasField("event_time") else set()
    for field_id in used:
        if schema.find_column_name(field_id) is None:
            raise InvalidInput(f"The schema has no field {field_id}, which partitioning, sorting or event time uses.")
    if m.last_column_id < schema.highest_field_id:
        raise InvalidInput(f"last_column_id is {m.last_column_id}, but the schema has field {schema.highest_field_id}.")
    last = max((field.field_id for field in spec.fields), default=0)
    if m.last_partition_id < last:
        raise InvalidInput(f"last_partition_id is {m.last_partition_id}, but the partitioning has field {last}.")
    event_time = m.event_time if m.HasField("event_time") else None
    properties = dict(m.properties)
    table_id = from_message_id(m.first.table_id, "table_id") if m.HasField("first") else None
    return NewTable(schema, m.last_column_id, spec, m.last_partition_id, order, event_time, properties, table_id)
