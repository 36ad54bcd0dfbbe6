"""Values of the model <-> messages of `moulin.lake.v1`. One pair of functions per noun.

The `from_` functions also run on what strangers send: whatever does not fit is InvalidInput.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, TypeVar
from uuid import UUID

from moulin._proto.moulin.format.v1 import manifest_pb2 as format_pb
from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.catalog.objects.tables import NewTable
from moulin.errors import Corrupt, InvalidInput
from moulin.model.entities import (
    CommitInfo,
    Database,
    DropPreview,
    Member,
    Region,
    TableEntry,
    TableState,
    Tombstone,
    View,
)
from moulin.model.layout.order import sort_from_json, sort_to_json
from moulin.model.layout.spec import spec_from_json, spec_to_json
from moulin.model.schema.documents import schema_from_json, schema_to_json

T = TypeVar("T")
_PAGE_BYTES: Final = 1 << 20
_PAGE_ITEMS: Final = 4096


def to_uuid(text: str, what: str) -> UUID:
    """The id in a request."""
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInput(f"{text[:80]!r} is not the id of a {what}: ids are UUIDs.") from None


def pages(messages: Iterable[T]) -> Iterator[list[T]]:
    """Messages in lists that fit well into one answer each."""
    page: list[T] = []
    size = 0
    for message in messages:
        page.append(message)
        size += message.ByteSize()  # type: ignore[attr-defined]
        if size >= _PAGE_BYTES or len(page) >= _PAGE_ITEMS:
            yield page
            page, size = [], 0
    if page:
        yield page


# Databases, tables, views


def to_tombstone(tombstone: Tombstone | None) -> pb.Tombstone | None:
    return (
        None
        if tombstone is None
        else pb.Tombstone(tombstoned_at=tombstone.tombstoned_at, delete_at=tombstone.delete_at)
    )


def _tombstone(message: Any) -> Tombstone | None:
    if not message.HasField("tombstone"):
        return None
    return Tombstone(message.tombstone.tombstoned_at, message.tombstone.delete_at)


def to_database(database: Database) -> pb.Database:
    return pb.Database(
        id=str(database.id),
        name=database.name,
        properties=dict(database.properties),
        created_at=database.created_at,
        tombstone=to_tombstone(database.tombstone),
    )


def from_database(m: pb.Database) -> Database:
    return Database(UUID(m.id), m.name, dict(m.properties), m.created_at, _tombstone(m))


def _to_member(member: Member) -> pb.Member:
    return pb.Member(id=str(member.id), name=member.name)


def _members(messages: Iterable[pb.Member]) -> tuple[Member, ...]:
    return tuple(Member(UUID(m.id), m.name) for m in messages)


def to_preview(preview: DropPreview) -> pb.DropPreview:
    return pb.DropPreview(
        database=to_database(preview.database),
        tables=map(_to_member, preview.tables),
        views=map(_to_member, preview.views),
        grace_seconds=preview.grace_seconds,
        tokens=map(_to_member, preview.tokens),
    )


def from_preview(m: pb.DropPreview) -> DropPreview:
    tables, views, tokens = _members(m.tables), _members(m.views), _members(m.tokens)
    return DropPreview(from_database(m.database), tables, views, m.grace_seconds, tokens)


def to_view(view: View) -> pb.View:
    return pb.View(
        id=str(view.id),
        database=view.database,
        name=view.name,
        members=map(_to_member, view.members),
        created_at=view.created_at,
        description=view.description,
        tombstone=to_tombstone(view.tombstone),
    )


def from_view(m: pb.View) -> View:
    description = m.description if m.HasField("description") else None
    return View(UUID(m.id), m.database, m.name, _members(m.members), m.created_at, description, _tombstone(m))


def to_entry(entry: TableEntry) -> pb.TableEntry:
    return pb.TableEntry(
        id=str(entry.id),
        database=entry.database,
        name=entry.name,
        created_at=entry.created_at,
        head_version=entry.head_version,
        segments=entry.segments,
        rows=entry.rows,
        bytes=entry.bytes,
        tombstone=to_tombstone(entry.tombstone),
        database_id=str(entry.database_id),
        properties=dict(entry.properties),
    )


def from_entry(m: pb.TableEntry) -> TableEntry:
    return TableEntry(
        UUID(m.id),
        m.database,
        m.name,
        m.created_at,
        m.head_version,
        m.segments,
        m.rows,
        m.bytes,
        _tombstone(m),
        UUID(m.database_id),
        dict(m.properties),
    )


def to_state(state: TableState) -> pb.TableState:
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
    )


def from_state(m: pb.TableState) -> TableState:
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


def to_new_table(database: str, name: str, new: NewTable) -> pb.CreateTableRequest:
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
    )


def from_new_table(m: pb.CreateTableRequest) -> NewTable:
    """A table to be made. What it names by field id must be in its schema."""
    try:
        schema, spec = schema_from_json(m.schema_json), spec_from_json(m.spec_json)
        order = sort_from_json(m.sort_order_json)
    except Corrupt as error:
        raise InvalidInput(f"The table cannot be made: {error.message}") from None
    used = {field.source_id for field in spec.fields} | {field.source_id for field in order.fields}
    used |= {m.event_time} if m.HasField("event_time") else set()
    for field_id in used:
        if schema.find_column_name(field_id) is None:
            raise InvalidInput(f"The schema has no field {field_id}, which partitioning, sorting or event time names.")
    if m.last_column_id < schema.highest_field_id:
        raise InvalidInput(f"last_column_id is {m.last_column_id}, and the schema has field {schema.highest_field_id}.")
    last = max((field.field_id for field in spec.fields), default=0)
    if m.last_partition_id < last:
        raise InvalidInput(f"last_partition_id is {m.last_partition_id}, and the partitioning has field {last}.")
    event_time = m.event_time if m.HasField("event_time") else None
    properties = dict(m.properties)
    return NewTable(schema, m.last_column_id, spec, m.last_partition_id, order, event_time, properties)


# Versions


def to_info(info: CommitInfo) -> pb.CommitInfo:
    return pb.CommitInfo(
        version=info.version,
        ordinal=info.ordinal,
        timestamp_ns=info.timestamp_ns,
        kind=str(info.kind),
        schema_id=info.schema_id,
        spec_id=info.spec_id,
        sequence=info.sequence,
        snapshot_id=info.snapshot_id,
        first_row_id=info.first_row_id,
        added_rows=info.added_rows,
        summary=dict(info.summary),
    )


def from_info(m: pb.CommitInfo) -> CommitInfo:
    return CommitInfo(
        m.version,
        m.ordinal,
        m.timestamp_ns,
        m.kind,
        m.schema_id,
        m.spec_id,
        m.sequence,
        m.snapshot_id,
        m.first_row_id,
        m.added_rows,
        dict(m.summary),
    )


# Partition tuples and regions


def to_tuple(value: Iterable[bytes | None]) -> format_pb.PartitionTuple:
    return format_pb.PartitionTuple(values=[format_pb.PartitionValue(value=part) for part in value])


def from_tuple(m: format_pb.PartitionTuple) -> tuple[bytes | None, ...]:
    return tuple(part.value if part.HasField("value") else None for part in m.values)


def to_region(region: Region) -> pb.Region:
    return pb.Region(
        number=region.number,
        value=to_tuple(region.value),
        epoch=region.epoch,
        owner=region.owner,
        covered=region.covered,
        generation=region.generation,
    )


def from_region(m: pb.Region) -> Region:
    return Region(m.number, from_tuple(m.value), m.epoch, m.owner, m.covered, m.generation)
