"""The Avro files of Iceberg: schemas of manifests and manifest lists, with every field id, and their bytes.

pyiceberg writes neither manifests of format version 3 nor the fields of deletion vectors, so the schemas are here.
"""

# Decisions: docs/decisions/0060

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

import fastavro
from pyiceberg.utils.decimal import decimal_required_bytes

from moulin.errors import Corrupt, Unsupported
from moulin.iceberg.format.json import Json
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
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

_CODEC = "deflate"


def write_avro(schema: Json, records: Iterable[Json], metadata: Mapping[str, str]) -> bytes:
    """An Avro file of these records."""
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), records, codec=_CODEC, metadata=dict(metadata))
    return out.getvalue()


def read_avro(data: bytes, source: str, *, partitions: bool = True) -> tuple[list[Json], dict[str, str]]:
    """The records of an Avro file and the key-values of its header. Raises Corrupt with `source` if it is invalid.

    Without `partitions` the partition tuples of a manifest are left out: Python has no date for some of them.
    """
    try:
        reader: Any = fastavro.reader(io.BytesIO(data))
        if not partitions:
            reader = fastavro.reader(io.BytesIO(data), reader_schema=_without_partition(reader.writer_schema))
        return list(reader), {key: _text(value) for key, value in reader.metadata.items()}
    except (ValueError, TypeError, EOFError, LookupError, OverflowError, json.JSONDecodeError) as error:
        raise _damaged(source, error) from None
    except Exception as error:
        if type(error).__module__.startswith(("fastavro", "zlib")):
            raise _damaged(source, error) from None
        raise


def _without_partition(schema: Any) -> Any:
    if isinstance(schema, dict) and schema.get("type") == "record":
        fields = [f for f in schema["fields"] if f.get("field-id") != 102]
        return {**schema, "fields": [{**f, "type": _without_partition(f["type"])} for f in fields]}
    return schema


def read_header(data: bytes, source: str) -> dict[str, str]:
    """The key-values of an Avro file's header, without its records."""
    try:
        reader: Any = fastavro.block_reader(io.BytesIO(data))
        return {key: _text(value) for key, value in reader.metadata.items()}
    except (ValueError, TypeError, EOFError, LookupError) as error:
        raise _damaged(source, error) from None


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _damaged(source: str, error: Exception) -> Corrupt:
    return Corrupt(f"{source} is not a readable Avro file ({' '.join(str(error).split())[:200]}).")


def partition_type(kind: IcebergType, field_id: int) -> Any:
    """The Avro type of a partition value. Types with a name get one of their own for each field."""
    match kind:
        case BooleanType():
            return "boolean"
        case IntegerType():
            return "int"
        case LongType():
            return "long"
        case FloatType():
            return "float"
        case DoubleType():
            return "double"
        case StringType():
            return "string"
        case BinaryType():
            return "bytes"
        case DateType():
            return {"type": "int", "logicalType": "date"}
        case TimeType():
            return {"type": "long", "logicalType": "time-micros"}
        case TimestampType() | TimestamptzType():
            zoned = isinstance(kind, TimestamptzType)
            return {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": zoned}
        case TimestampNanoType() | TimestamptzNanoType():
            zoned = isinstance(kind, TimestamptzNanoType)
            return {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": zoned}
        case UUIDType():
            return {"type": "fixed", "size": 16, "logicalType": "uuid", "name": f"uuid_{field_id}"}
        case FixedType():
            return {"type": "fixed", "size": len(kind), "name": f"fixed_{field_id}"}
        case DecimalType():
            return {
                "type": "fixed",
                "size": decimal_required_bytes(kind.precision),
                "logicalType": "decimal",
                "precision": kind.precision,
                "scale": kind.scale,
                "name": f"decimal_{field_id}",
            }
    raise Unsupported(f"A partition value of type {kind} has no form in an Iceberg manifest.")


def manifest_schema(partition: Iterable[tuple[int, str, IcebergType]], format_version: int) -> Json:
    """The schema of a manifest whose partition tuple has these fields: id, name and type."""
    fields = [
        {"name": _avro_name(name), "type": ["null", partition_type(kind, field_id)], "default": None,
         "field-id": field_id, **({} if _avro_name(name) == name else {"iceberg-field-name": name})}
        for field_id, name, kind in partition
    ]  # fmt: skip
    data_file = [
        _required(134, "content", "int"),
        _required(100, "file_path", "string"),
        _required(101, "file_format", "string"),
        _required(102, "partition", {"type": "record", "name": "r102", "fields": fields}),
        _required(103, "record_count", "long"),
        _required(104, "file_size_in_bytes", "long"),
        _optional(108, "column_sizes", _map(117, 118, "long")),
        _optional(109, "value_counts", _map(119, 120, "long")),
        _optional(110, "null_value_counts", _map(121, 122, "long")),
        _optional(137, "nan_value_counts", _map(138, 139, "long")),
        _optional(125, "lower_bounds", _map(126, 127, "bytes")),
        _optional(128, "upper_bounds", _map(129, 130, "bytes")),
        _optional(131, "key_metadata", "bytes"),
        _optional(132, "split_offsets", {"type": "array", "items": "long", "element-id": 133}),
        _optional(135, "equality_ids", {"type": "array", "items": "int", "element-id": 136}),
        _optional(140, "sort_order_id", "int"),
    ]
    if format_version >= 3:
        data_file.append(_optional(142, "first_row_id", "long"))
    data_file.append(_optional(143, "referenced_data_file", "string"))
    if format_version >= 3:
        data_file += [_optional(144, "content_offset", "long"), _optional(145, "content_size_in_bytes", "long")]
    entry = [
        _required(0, "status", "int"),
        _optional(1, "snapshot_id", "long"),
        _optional(3, "sequence_number", "long"),
        _optional(4, "file_sequence_number", "long"),
        _required(2, "data_file", {"type": "record", "name": "r2", "fields": data_file}),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": entry}


def manifest_list_schema(format_version: int) -> Json:
    summary = [
        _required(509, "contains_null", "boolean"),
        _optional(518, "contains_nan", "boolean"),
        _optional(510, "lower_bound", "bytes"),
        _optional(511, "upper_bound", "bytes"),
    ]
    partitions = {"type": "array", "items": {"type": "record", "name": "r508", "fields": summary}, "element-id": 508}
    fields = [
        _required(500, "manifest_path", "string"),
        _required(501, "manifest_length", "long"),
        _required(502, "partition_spec_id", "int"),
        _required(517, "content", "int"),
        _required(515, "sequence_number", "long"),
        _required(516, "min_sequence_number", "long"),
        _required(503, "added_snapshot_id", "long"),
        _required(504, "added_files_count", "int"),
        _required(505, "existing_files_count", "int"),
        _required(506, "deleted_files_count", "int"),
        _required(512, "added_rows_count", "long"),
        _required(513, "existing_rows_count", "long"),
        _required(514, "deleted_rows_count", "long"),
        _optional(507, "partitions", partitions),
        _optional(519, "key_metadata", "bytes"),
    ]
    if format_version >= 3:
        fields.append(_optional(520, "first_row_id", "long"))
    return {"type": "record", "name": "manifest_file", "fields": fields}


def _required(field_id: int, name: str, kind: Any) -> Json:
    return {"name": name, "type": kind, "field-id": field_id}


def _optional(field_id: int, name: str, kind: Any) -> Json:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}


def _map(key_id: int, value_id: int, value: str) -> Json:
    """A map from int: Avro's own maps have text keys only."""
    fields = [
        {"name": "key", "type": "int", "field-id": key_id},
        {"name": "value", "type": value, "field-id": value_id},
    ]
    pair = {"type": "record", "name": f"k{key_id}_v{value_id}", "fields": fields}
    return {"type": "array", "items": pair, "logicalType": "map"}


def _avro_name(name: str) -> str:
    """`name` as Avro takes it, spelled as Iceberg's own writers do: a letter or underscore, then digits too."""
    spelled = "".join(char if char.isascii() and (char.isalnum() or char == "_") else _escape(char) for char in name)
    return f"_{spelled}" if spelled[:1].isdigit() else spelled


def _escape(char: str) -> str:
    return f"_x{ord(char):X}"
