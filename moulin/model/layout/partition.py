"""Partitioning: specs read from text, and partition tuples as bytes. `partition_rows` splits rows by them.

A partition tuple holds a value per field of its spec: Iceberg's single-value bytes in the transform's result type, or
None for null.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from types import MappingProxyType
from typing import Any
from uuid import UUID

from moulin.errors import Corrupt, InvalidInput
from moulin.model.layout.partition_spec import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    PartitionField,
    PartitionSpec,
    TimeTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from moulin.model.names import did_you_mean
from moulin.model.schema.schema import column_path, find_column
from moulin.model.schema.single_value import from_bytes, to_json
from moulin.model.schema.times import micros_to_time, micros_to_timestamp, micros_to_timestamptz
from moulin.model.schema.values import (
    DateType,
    IcebergType,
    PrimitiveType,
    Schema,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)
from moulin.model.texts import check_text

PartitionTuple = tuple[bytes | None, ...]

FIRST_FIELD_ID = 1000
_MAX_WIDTH = 2**31 - 1

_PLAIN: Mapping[str, Callable[[], Transform]] = MappingProxyType(
    {
        "identity": IdentityTransform,
        "year": YearTransform,
        "years": YearTransform,
        "month": MonthTransform,
        "months": MonthTransform,
        "day": DayTransform,
        "days": DayTransform,
        "hour": HourTransform,
        "hours": HourTransform,
        "void": VoidTransform,
    }
)
_WITH_NUMBER: Mapping[str, Callable[[int], Transform]] = MappingProxyType(
    {"bucket": BucketTransform, "truncate": TruncateTransform}
)
_NAMED = re.compile(r"(.+?)\s+as\s+(\w+)\s*", re.IGNORECASE | re.DOTALL)
_CALL = re.compile(r"\s*(\w+)\s*\(\s*(?:(\d{1,10})\s*,)?\s*([^,()]+?)\s*\)\s*")


def parse_spec(
    fields: Sequence[str],
    schema: Schema,
    *,
    previous: Sequence[PartitionSpec] = (),
    last_partition_id: int = FIRST_FIELD_ID - 1,
) -> tuple[PartitionSpec, int]:
    """The spec that `fields` describe, such as ["day(ts) as d", "bucket(16, id)"], and the last field id given.

    A field that one of the `previous` specs has keeps its id, and its name unless another one is given; a spec equal to
    one of them is that one.
    """
    if isinstance(fields, str):
        raise InvalidInput(f"Partitioning must be a list of transforms: use [{fields!r}].")
    given = [_split_name(text, schema) for text in fields]
    wanted = [_parse_field(text, schema) for text, _ in given]
    _check_redundant(wanted, schema)
    for spec in previous:
        if [(field.source_id, field.transform) for field in spec.fields] == wanted and all(
            name in (None, field.name) for (_, name), field in zip(given, spec.fields, strict=True)
        ):
            return spec, last_partition_id
    earlier = {(field.source_id, str(field.transform)): field for spec in previous for field in spec.fields}
    names = {field.name.lower() for field in earlier.values()}
    result: list[PartitionField] = []
    for (source_id, transform), (_, chosen) in zip(wanted, given, strict=True):
        field = earlier.get((source_id, str(transform)))
        if field is None:
            last_partition_id = max(last_partition_id, FIRST_FIELD_ID - 1) + 1
            name = chosen or _name(source_id, transform, schema, names)
            field = PartitionField(source_id, last_partition_id, transform, name)
        elif chosen is not None:
            field = PartitionField(source_id, field.field_id, transform, chosen)
        names.add(field.name.lower())
        result.append(field)
    spec_id = max((spec.spec_id for spec in previous), default=-1) + 1
    made = PartitionSpec(*result, spec_id=spec_id)
    if any(name is not None for _, name in given):
        _check_names(made, schema)
    return made, last_partition_id


def _split_name(text: object, schema: Schema) -> tuple[object, str | None]:
    """A field and the name that is given to it, as in "day(ts) as d"."""
    found = _NAMED.fullmatch(text) if isinstance(text, str) else None
    if found is None or (isinstance(text, str) and text.strip() in schema.column_names):
        return text, None
    return found[1], check_text(found[2], "name of a partition field", 1024)


def adopt_spec(
    wanted: PartitionSpec,
    fields: Sequence[str],
    schema: Schema,
    *,
    previous: Sequence[PartitionSpec],
    last_partition_id: int,
) -> tuple[PartitionSpec, int]:
    """A spec with ids and names from a client, after validation, and the last field id.

    `fields` describe the same spec as `parse_spec` has it. A spec equal to one of the `previous` is that one.
    """
    parsed = [_parse_field(text, schema) for text in fields]
    if parsed != [(field.source_id, field.transform) for field in wanted.fields]:
        raise InvalidInput("The fields of the partition spec do not match its description.")
    _check_redundant(parsed, schema)
    _check_ids(wanted, previous, last_partition_id)
    _check_names(wanted, schema)
    for spec in previous:
        if spec.fields == wanted.fields:
            return spec, last_partition_id
    spec_id = max((spec.spec_id for spec in previous), default=-1) + 1
    last = max([last_partition_id, *(field.field_id for field in wanted.fields)])
    return PartitionSpec(*wanted.fields, spec_id=spec_id), last


def _check_ids(wanted: PartitionSpec, previous: Sequence[PartitionSpec], last_partition_id: int) -> None:
    known = {field.field_id: (field.source_id, field.transform) for spec in previous for field in spec.fields}
    seen: set[int] = set()
    for field in wanted.fields:
        new = field.field_id not in known
        if field.field_id in seen or (field.field_id <= last_partition_id if new else False):
            raise InvalidInput(
                f"Partition field {field.name!r} has the id {field.field_id}: an existing field keeps its id, and a "
                f"new one gets an id above {last_partition_id}."
            )
        if not new and known[field.field_id] != (field.source_id, field.transform):
            raise InvalidInput(
                f"Partition field {field.name!r} has the id {field.field_id} of another field: give it a new id "
                f"above {last_partition_id}."
            )
        seen.add(field.field_id)


def _check_names(wanted: PartitionSpec, schema: Schema) -> None:
    names: set[str] = set()
    for field in wanted.fields:
        if not field.name or field.name in names:
            raise InvalidInput(f"The name {field.name!r} of a partition field is empty, or given twice.")
        names.add(field.name)
        own = isinstance(field.transform, IdentityTransform) and schema.find_column_name(field.source_id) == field.name
        if field.name in schema.column_names and not own:
            raise InvalidInput(f"Partition field {field.name!r} has the name of a different column.")


def decode_partition(spec: PartitionSpec, schema: Schema, values: PartitionTuple) -> dict[str, Any]:
    """The Python value of each partition field by its name; dates and times as such where Python can hold them.

    A field whose source column was dropped keeps its bytes, unless its transform alone tells the type.
    """
    return {field.name: python_value(kind, value) for field, kind, value in _decoded(spec, schema, values)}


def format_partition(spec: PartitionSpec, schema: Schema, values: PartitionTuple) -> str:
    """The partition as people read it, such as "ts_day=2024-03-01/id_bucket=7"; empty without partitioning."""
    return "/".join(
        f"{field.name}={_as_text(field.transform, kind, value)}"
        for field, kind, value in _decoded(spec, schema, values)
    )


def _parse_field(text: object, schema: Schema) -> tuple[int, Transform]:
    if not isinstance(text, str):
        raise InvalidInput(f'A partition field must be text such as "day(ts)", not {type(text).__name__}.')
    name, transform = split_call(text, schema)
    source = find_column(schema, name)
    if column_path(schema, source.field_id) is None:
        raise InvalidInput(f"The table cannot be partitioned by {text!r}: {name} lies inside a list or map.")
    if not isinstance(source.field_type, PrimitiveType) or not transform.can_transform(source.field_type):
        raise InvalidInput(
            f"The table cannot be partitioned by {text!r}: column {name} is of type {source.field_type}."
        )
    return source.field_id, transform


def split_call(text: str, schema: Schema) -> tuple[str, Transform]:
    """The column and the transform of a text such as "bucket(16, id)"; a column alone is its own transform."""
    call = _CALL.fullmatch(text)
    if call is None or text.strip() in schema.column_names:
        return text.strip(), _PLAIN["identity"]()
    return call[3], _parse_transform(call[1].lower(), call[2], text)


def call_text(transform: Transform, column: str) -> str:
    """What `split_call` reads as this transform of a column."""
    match transform:
        case IdentityTransform():
            return column
        case BucketTransform():
            return f"bucket({transform.num_buckets}, {column})"
        case TruncateTransform():
            return f"truncate({transform.width}, {column})"
    return f"{transform}({column})"


def _parse_transform(name: str, number: str | None, text: str) -> Transform:
    if name in _PLAIN and number is None:
        return _PLAIN[name]()
    if name in _WITH_NUMBER and number is not None:
        if not 1 <= int(number) <= _MAX_WIDTH:
            raise InvalidInput(f"The number in partition field {text!r} must be 1 to {_MAX_WIDTH}.")
        return _WITH_NUMBER[name](int(number))
    if name in _PLAIN:
        raise InvalidInput(f"Partition field {text!r}: {name} takes only a column, as in {name}(ts).")
    if name in _WITH_NUMBER:
        raise InvalidInput(f"Partition field {text!r}: {name} takes a number and a column, as in {name}(16, id).")
    known = "identity, year, month, day, hour, bucket, truncate, void"
    near = did_you_mean(name, (*_PLAIN, *_WITH_NUMBER))
    raise InvalidInput(f"Unknown transform {name!r} in partition field {text!r}.{near} Known ones: {known}.")


def _check_redundant(wanted: Sequence[tuple[int, Transform]], schema: Schema) -> None:
    seen: dict[tuple[int, str], Transform] = {}
    for source_id, transform in wanted:
        key = source_id, "time" if isinstance(transform, TimeTransform) else str(transform)
        if key in seen:
            column = schema.find_column_name(source_id)
            raise InvalidInput(
                f"Partitioning by both {seen[key]} and {transform} of column {column} is redundant: keep the finer one."
            )
        seen[key] = transform


def _name(source_id: int, transform: Transform, schema: Schema, fields: set[str]) -> str:
    """Iceberg's name for the field; with its number, or counted up, when a column or another field has that name."""
    column = schema.find_column_name(source_id) or ""
    taken = fields | {name.lower() for name in schema.column_names}
    match transform:
        case IdentityTransform():
            if column.lower() not in fields:
                return column
            candidates = [f"{column}_identity"]
        case BucketTransform():
            candidates = [f"{column}_bucket", f"{column}_bucket_{transform.num_buckets}"]
        case TruncateTransform():
            candidates = [f"{column}_trunc", f"{column}_trunc_{transform.width}"]
        case VoidTransform():
            candidates = [f"{column}_null"]
        case _:
            candidates = [f"{column}_{transform}"]
    candidates += [f"{candidates[-1]}_{count}" for count in range(2, len(taken) + 3)]
    return next(name for name in candidates if name.lower() not in taken)


def _decoded(
    spec: PartitionSpec, schema: Schema, values: PartitionTuple
) -> list[tuple[PartitionField, IcebergType, Any]]:
    if len(values) != len(spec.fields):
        raise Corrupt(f"A partition of spec {spec.spec_id} has {len(values)} values where {len(spec.fields)} belong.")
    result: list[tuple[PartitionField, IcebergType, Any]] = []
    for field, value in zip(spec.fields, values, strict=True):
        source = UnknownType() if column_path(schema, field.source_id) is None else schema.find_type(field.source_id)
        kind = field.transform.result_type(source)
        if value is None or isinstance(kind, UnknownType):
            result.append((field, kind, value))
            continue
        try:
            result.append((field, kind, from_bytes(kind, value)))
        except (struct.error, ValueError):
            raise Corrupt(f"The partition value {value!r} of {field.name} is not one of type {kind}.") from None
    return result


def python_value(kind: IcebergType, value: Any) -> Any:
    """A value as bounds and partitions have it, in Python's own type for dates and times where there is one."""
    convert = _PYTHON.get(type(kind))
    if value is None or convert is None:
        return value
    try:
        return convert(value)
    except OverflowError:
        return value


_PYTHON: Mapping[type[IcebergType], Callable[[Any], Any]] = MappingProxyType(
    {
        DateType: lambda days: date(1970, 1, 1) + timedelta(days),
        TimeType: micros_to_time,
        TimestampType: micros_to_timestamp,
        TimestamptzType: micros_to_timestamptz,
        UUIDType: lambda value: UUID(bytes=value),
    }
)


def _as_text(transform: Transform, kind: IcebergType, value: Any) -> str:
    try:
        if value is not None and isinstance(kind, TimestampNanoType | TimestamptzNanoType):
            return str(to_json(kind, value))
        if value is not None and isinstance(kind, UUIDType):
            return str(UUID(bytes=value))
        return transform.to_human_string(kind, value)
    except OverflowError:
        return str(value)


__all__ = [
    "FIRST_FIELD_ID",
    "PartitionTuple",
    "call_text",
    "decode_partition",
    "format_partition",
    "parse_spec",
    "python_value",
    "split_call",
]
