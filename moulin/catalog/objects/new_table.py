"""What a table is made of, checked as the Python API makes it: clients of a server send it as JSON of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from moulin.errors import InvalidInput, NotFound
from moulin.model.entities import TableState
from moulin.model.facts import SegmentFacts, VectorFacts
from moulin.model.key.key import with_key
from moulin.model.layout.event_time import event_time_id
from moulin.model.layout.partition import PartitionTuple
from moulin.model.layout.partition_spec import (
    BucketTransform,
    IdentityTransform,
    PartitionSpec,
    Transform,
    TruncateTransform,
    UnknownTransform,
)
from moulin.model.layout.sort_order import SortOrder
from moulin.model.names import check_column_name
from moulin.model.operations import Append
from moulin.model.region_spec import RegionSpec
from moulin.model.schema.defaults import coerce_default
from moulin.model.schema.schema import MAX_FIELD_ID, check_field_count, column_path
from moulin.model.schema.types import check_storable, check_unique
from moulin.model.schema.values import IcebergType, ListType, MapType, NestedField, PrimitiveType, Schema, StructType
from moulin.model.texts import check_text, check_texts

_MAX_SETTING: Final = 1 << 20
"""Highest id of a schema, partitioning or sort order that a table begins with: changes count on from there."""
_MAX_PARTITION_ID: Final = 1 << 30
_MAX_WIDTH: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class NewTable:
    """The definition of a new table, with assigned ids."""

    schema: Schema
    last_column_id: int
    spec: PartitionSpec
    last_partition_id: int
    sort_order: SortOrder
    event_time: int | None
    properties: Mapping[str, str]
    # Given when the table's folder was named before the table was made; else a fresh one.
    id: UUID | None = None


@dataclass(frozen=True, slots=True)
class FirstRows:
    """The rows that a table is made with. A keyed table's regions come with them, with the numbers that segments name.

    The segments lie in the folder of the table's id, which was chosen before. `vectors` hides rows of them, by segment.
    """

    segments: tuple[SegmentFacts, ...]
    regions: Mapping[PartitionTuple, int]
    vectors: Mapping[int, VectorFacts] = dataclasses.field(default_factory=dict)

    @property
    def operation(self) -> Append:
        """What adds them."""
        return Append(added=self.segments, added_vectors=self.vectors)


def foreseen(new: NewTable, database: str, name: str) -> TableState:
    """The state of a table before its creation. REQUIRES: its id is chosen."""
    assert new.id is not None
    return TableState(
        id=new.id,
        database=database,
        name=name,
        version=0,
        head_version=0,
        created_version=0,
        oldest_version=0,
        created_at=0,
        schemas={new.schema.schema_id: new.schema},
        schema_id=new.schema.schema_id,
        specs={new.spec.spec_id: new.spec},
        spec_id=new.spec.spec_id,
        sort_orders={new.sort_order.order_id: new.sort_order},
        sort_order_id=new.sort_order.order_id,
        event_time=new.event_time,
        last_column_id=new.last_column_id,
        last_partition_id=new.last_partition_id,
        last_sequence=0,
        next_row_id=0,
        properties=dict(new.properties),
    )


def check(new: NewTable) -> None:
    """Reject a table that the Python API could not create: InvalidInput says why."""
    for what, number in (
        ("schema", new.schema.schema_id),
        ("partition spec", new.spec.spec_id),
        ("sort order", new.sort_order.order_id),
    ):
        if not 0 <= number <= _MAX_SETTING:
            raise InvalidInput(f"A new table's {what} has an id from 0 to {_MAX_SETTING}, not {number}.")
    check_texts(new.properties, "property")
    _check_schema(new)
    try:
        _check_key(new)
        _check_spec(new)
        _check_order(new)
        RegionSpec.of(new.schema, new.properties)
        if new.event_time is not None:
            event_time_id(new.schema, _column(new.schema, new.event_time, "event time"))
    except NotFound as error:
        raise InvalidInput(error.message) from None


def _check_schema(new: NewTable) -> None:
    fields = new.schema.fields
    if not fields:
        raise InvalidInput("A table needs at least one column.")
    for field in fields:
        check_column_name(field.name)
        check_storable(field.field_type, f"column {field.name}")
    check_unique(fields, "The schema")
    every = [inner for field in fields for inner in _with_inner(field)]
    check_field_count(len(every))
    ids = [field.field_id for field in every]
    if len(set(ids)) != len(ids) or not 1 <= min(ids) <= max(ids) <= MAX_FIELD_ID:
        raise InvalidInput(f"The fields of a schema must have distinct ids, from 1 to {MAX_FIELD_ID}.")
    if not max(ids) <= new.last_column_id <= MAX_FIELD_ID:
        raise InvalidInput(
            f"last_column_id lies between the highest field id, {max(ids)}, and {MAX_FIELD_ID}: "
            f"{new.last_column_id} does not."
        )
    for field in every:
        check_text(field.doc or "", f"comment of column {field.name}")
        for default in (field.initial_default, field.write_default):
            if default is not None:
                coerce_default(field.field_type, default, f"column {field.name}")


def _with_inner(field: NestedField) -> Iterator[NestedField]:
    yield field
    for inner in _inner(field.field_type):
        yield from _with_inner(inner)


def _inner(kind: IcebergType) -> tuple[NestedField, ...]:
    match kind:
        case StructType():
            return tuple(kind.fields)
        case ListType():
            return (kind.element_field,)
        case MapType():
            return (kind.key_field, kind.value_field)
    return ()


def _column(schema: Schema, field_id: int, what: str) -> str:
    """The name of a field that the table is partitioned or sorted by: a simple type, and in no list or map."""
    name = schema.find_column_name(field_id)
    if name is None:
        raise InvalidInput(f"The schema has no field {field_id}, which the {what} uses.")
    if column_path(schema, field_id) is None or not isinstance(schema.find_type(field_id), PrimitiveType):
        raise InvalidInput(f"The {what} cannot use {name}: it is of type {schema.find_type(field_id)}, or nested.")
    return name


def _check_key(new: NewTable) -> None:
    ids = new.schema.identifier_field_ids
    if not ids:
        return
    names = [_column(new.schema, field_id, "primary key") for field_id in ids]
    keyed = with_key(new.schema, names)
    if keyed.fields != new.schema.fields:
        raise InvalidInput("The columns of a primary key must be required.")
    by_columns = all(isinstance(field.transform, IdentityTransform) for field in new.sort_order.fields)
    if not by_columns or [field.source_id for field in new.sort_order.fields] != list(ids):
        raise InvalidInput("A keyed table is sorted by its key.")


def _check_spec(new: NewTable) -> None:
    ids, names = set(), set()
    for field in new.spec.fields:
        column = _column(new.schema, field.source_id, "partitioning")
        check_text(field.name, "name of a partition field", 1024)
        if not field.name or not _fits(field.transform, new.schema.find_type(field.source_id)):
            raise InvalidInput(f"The table cannot be partitioned by {field.transform} of column {column}.")
        ids.add(field.field_id)
        names.add(field.name.lower())
    if len(ids) != len(new.spec.fields) or len(names) != len(new.spec.fields):
        raise InvalidInput("The fields of a partitioning must have distinct ids and names.")
    if not max(ids, default=0) <= new.last_partition_id <= _MAX_PARTITION_ID or min(ids, default=1) < 1:
        raise InvalidInput(
            f"last_partition_id lies between the highest id of a partition field, {max(ids, default=0)}, and "
            f"{_MAX_PARTITION_ID}: not {new.last_partition_id}."
        )


def _fits(transform: Transform, kind: IcebergType) -> bool:
    match transform:
        case UnknownTransform():
            return False
        case BucketTransform():
            width = transform.num_buckets
        case TruncateTransform():
            width = transform.width
        case _:
            width = 1
    return 1 <= width <= _MAX_WIDTH and transform.can_transform(kind)


def _check_order(new: NewTable) -> None:
    seen = set()
    for field in new.sort_order.fields:
        column = _column(new.schema, field.source_id, "sort order")
        key = field.source_id, field.transform
        if not _fits(field.transform, new.schema.find_type(field.source_id)) or key in seen:
            raise InvalidInput(f"Rows cannot be sorted by {field.transform} of column {column}, or twice.")
        seen.add(key)
    if bool(new.sort_order.fields) != bool(new.sort_order.order_id):
        raise InvalidInput("The id of a sort order must be at least 1; 0 is the one without fields.")
