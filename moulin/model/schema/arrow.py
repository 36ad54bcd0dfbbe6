"""The Arrow form of a schema: one canonical Arrow type per Iceberg type, and the field id on every field, nested too.

Segments are written and read in exactly these types, so two batches of one schema can always be concatenated. What
users get differs from that in lists of a fixed length, docs and metadata: `shown_schema`.
"""

# Decisions: docs/decisions/0241

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from moulin.errors import Unsupported
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    Schema,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

FIELD_ID_KEY = b"PARQUET:field_id"

# The lineage columns. Their ids are those that Iceberg reserves, and they are stored in files: never change them.
ROW_ID = "_row_id"
ROW_ID_FIELD_ID = 2147483540
LAST_UPDATED_SEQUENCE = "_last_updated_sequence_number"
LAST_UPDATED_SEQUENCE_FIELD_ID = 2147483539

# What users see in place of the sequence number: the lake's version. Derived at read, never stored.
LAST_UPDATED_VERSION = "_last_updated_version"
# The version that created the row, independent of updates. Derived from the row id.
CREATED_VERSION = "_created_version"
# Position of a row in its segment, as reads give it. Never stored under this name.
POSITION = "_pos"
# The same as a column of segments from level 1 on, for engines that count rows slower than they decode them. Its id
# lies where Iceberg keeps ids for itself and gives none out, so that no table's column can have it: never change it.
STORED_POSITION = "_moulin_position"
STORED_POSITION_FIELD_ID = 2147483448

_PRIMITIVES: Mapping[type[IcebergType], Callable[[Any], pa.DataType]] = MappingProxyType(
    {
        BooleanType: lambda _: pa.bool_(),
        IntegerType: lambda _: pa.int32(),
        LongType: lambda _: pa.int64(),
        FloatType: lambda _: pa.float32(),
        DoubleType: lambda _: pa.float64(),
        DecimalType: lambda t: pa.decimal128(t.precision, t.scale),
        DateType: lambda _: pa.date32(),
        TimeType: lambda _: pa.time64("us"),
        TimestampType: lambda _: pa.timestamp("us"),
        TimestamptzType: lambda _: pa.timestamp("us", tz="UTC"),
        TimestampNanoType: lambda _: pa.timestamp("ns"),
        TimestamptzNanoType: lambda _: pa.timestamp("ns", tz="UTC"),
        StringType: lambda _: pa.string(),
        UUIDType: lambda _: pa.uuid(),
        FixedType: lambda t: pa.binary(len(t)),
        BinaryType: lambda _: pa.binary(),
    }
)


def arrow_schema(schema: Schema, *, lineage: bool = False) -> pa.Schema:
    """The Arrow schema of `schema`; with `lineage`, the two nullable lineage columns follow its columns.

    The result is cached by the identity of `schema`, which is immutable.
    """
    return _cached(ByIdentity(schema), lineage)


def arrow_field(field: NestedField) -> pa.Field:
    """The Arrow field of one column, with its field id."""
    return _field(field.name, field.field_type, field.field_id, field.required)


def arrow_type(iceberg: IcebergType) -> pa.DataType:
    """The Arrow type of an Iceberg type. Fields inside it carry their ids."""
    if isinstance(iceberg, StructType):
        return pa.struct([arrow_field(field) for field in iceberg.fields])
    if isinstance(iceberg, ListType):
        return pa.list_(_field("element", iceberg.element_type, iceberg.element_id, iceberg.element_required))
    if isinstance(iceberg, MapType):
        return pa.map_(
            _field("key", iceberg.key_type, iceberg.key_id, True),
            _field("value", iceberg.value_type, iceberg.value_id, iceberg.value_required),
        )
    build = _PRIMITIVES.get(type(iceberg))
    if build is None:
        raise Unsupported(f"Columns of type {iceberg} cannot be stored; choose another type.")
    return build(iceberg)


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table without rows. Arrow's own `empty_table` cannot make one with a UUID inside a struct, list or map."""
    return pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def list_values(array: pa.Array) -> pa.Array:
    """The values of all lists in a row. Arrow's own `flatten` fails where all are null and structs with UUIDs."""
    return (array[:0] if array.null_count == len(array) else array).flatten()


def shown_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema that users get: with docs and metadata, and with lists of a fixed length as Arrow has them.

    Cached like `arrow_schema`, and the same when there is nothing to add.
    """
    return _cached_shown(ByIdentity(schema))


def show(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table of canonical types in those of `schema`, whose columns it has."""
    if table.schema.equals(schema, check_metadata=True):
        return table
    columns = [
        column
        if column.type == field.type
        else pa.chunked_array([_shown_array(chunk, field.type) for chunk in column.chunks], field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _shown_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pt.is_struct(kind) and pt.is_struct(array.type):
        # What lies below a null struct is null in `flatten`, but may be a list of another length in the array itself.
        children = [_shown_array(child, field.type) for child, field in zip(array.flatten(), kind, strict=True)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    return array if array.type == kind else array.cast(kind)


def _shown_field(field: NestedField, inside: bool = False) -> pa.Field:
    metadata = dict(field.metadata)
    if field.doc is not None:
        metadata[b"doc"] = field.doc.encode()
    metadata[FIELD_ID_KEY] = str(field.field_id).encode()
    return pa.field(field.name, _shown_type(field.field_type, inside), nullable=not field.required, metadata=metadata)


def _shown_type(kind: IcebergType, inside: bool) -> pa.DataType:
    """`inside`: in a list or map. Fields of a struct there show no lengths, as Arrow cannot cast below null structs."""
    match kind:
        case StructType():
            return pa.struct([arrow_field(field) if inside else _shown_field(field, inside) for field in kind.fields])
        case ListType(length=length):
            return pa.list_(_shown_field(kind.element_field, True), -1 if length is None else length)
        case MapType():
            return pa.map_(_shown_field(kind.key_field, True), _shown_field(kind.value_field, True))
    return arrow_type(kind)


def field_id(field: pa.Field) -> int | None:
    """The field id that an Arrow field carries, or None."""
    found = (field.metadata or {}).get(FIELD_ID_KEY)
    return None if found is None else int(found)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column that holds values: its index among a Parquet file's columns, its dotted path there, its id and type.

    `repeated` says that it lies inside a list or map; `column` is the index of the top-level column around it.
    """

    index: int
    column: int
    path: str
    field_id: int | None
    type: pa.DataType
    repeated: bool


def leaves(schema: pa.Schema) -> tuple[Leaf, ...]:
    """The leaf columns of an Arrow schema in the order in which Parquet stores them."""
    found: list[Leaf] = []

    def walk(field: pa.Field, path: str, column: int, repeated: bool) -> None:
        kind = field.type
        if pt.is_struct(kind):
            for child in kind:
                walk(child, f"{path}.{child.name}", column, repeated)
        elif pt.is_map(kind):
            walk(kind.key_field, f"{path}.key_value.key", column, True)
            walk(kind.item_field, f"{path}.key_value.value", column, True)
        elif pt.is_nested(kind):
            walk(kind.value_field, f"{path}.list.element", column, True)
        else:
            found.append(Leaf(len(found), column, path, field_id(field), kind, repeated))

    for column, field in enumerate(schema):
        walk(field, field.name, column, False)
    return tuple(found)


def lineage_fields() -> tuple[pa.Field, pa.Field]:
    """The stored lineage columns, in the order in which they follow a table's own columns."""
    return _LINEAGE


def stored_position_field() -> pa.Field:
    """The stored column of positions, which comes last."""
    return _STORED_POSITION


def _field(name: str, iceberg: IcebergType, number: int, required: bool) -> pa.Field:
    return pa.field(name, arrow_type(iceberg), nullable=not required, metadata={FIELD_ID_KEY: str(number).encode()})


_LINEAGE = (
    _field(ROW_ID, LongType(), ROW_ID_FIELD_ID, False),
    _field(LAST_UPDATED_SEQUENCE, LongType(), LAST_UPDATED_SEQUENCE_FIELD_ID, False),
)


_STORED_POSITION = _field(STORED_POSITION, LongType(), STORED_POSITION_FIELD_ID, True)


class ByIdentity:
    """A cache key: schemas are not hashable, and comparing them costs more than building the result."""

    __slots__ = ("schema",)

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByIdentity) and other.schema is self.schema


@lru_cache(maxsize=512)
def _cached(key: ByIdentity, lineage: bool) -> pa.Schema:
    fields = [arrow_field(field) for field in key.schema.fields]
    return pa.schema([*fields, *_LINEAGE] if lineage else fields)


@lru_cache(maxsize=512)
def _cached_shown(key: ByIdentity) -> pa.Schema:
    shown = pa.schema([_shown_field(field) for field in key.schema.fields], dict(key.schema.metadata) or None)
    plain = arrow_schema(key.schema)
    return plain if shown.equals(plain, check_metadata=True) else shown


__all__ = [
    "CREATED_VERSION",
    "FIELD_ID_KEY",
    "LAST_UPDATED_SEQUENCE",
    "LAST_UPDATED_SEQUENCE_FIELD_ID",
    "LAST_UPDATED_VERSION",
    "POSITION",
    "ROW_ID",
    "ROW_ID_FIELD_ID",
    "STORED_POSITION",
    "STORED_POSITION_FIELD_ID",
    "ByIdentity",
    "Leaf",
    "arrow_field",
    "arrow_schema",
    "arrow_type",
    "field_id",
    "leaves",
    "lineage_fields",
    "show",
    "shown_schema",
    "stored_position_field",
]
