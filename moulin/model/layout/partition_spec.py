"""Partition specs and their transforms as plain values, and their JSON.

`transform` applies them to Arrow arrays, `partition` reads them from text and splits rows by them.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, ClassVar

from moulin.model.schema.documents import Document, from_stored, part, to_text
from moulin.model.schema.single_value import to_json
from moulin.model.schema.times import days_to_date
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    GeoType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
)

_TIMESTAMPS = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
_NOT_HASHED = (BooleanType, FloatType, DoubleType, UnknownType, GeoType)


class Transform:
    """What makes a partition value of a column's value. `str` spells it as the specification does."""

    __slots__ = ()
    name: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def can_transform(self, source: IcebergType) -> bool:
        return False

    def result_type(self, source: IcebergType) -> IcebergType:
        return source

    def to_human_string(self, kind: IcebergType, value: Any) -> str:
        """A partition value of the result type `kind`, as people read it."""
        return "null" if value is None else str(value)


class IdentityTransform(Transform):
    __slots__ = ()
    name: ClassVar[str] = "identity"

    def can_transform(self, source: IcebergType) -> bool:
        return isinstance(source, PrimitiveType) and not isinstance(source, GeoType)

    def to_human_string(self, kind: IcebergType, value: Any) -> str:
        match value:
            case None:
                return "null"
            case bytes():
                return b64encode(value).decode()
            case bool():
                return str(value).lower()
            case int() if isinstance(kind, DateType | TimeType | TimestampType | TimestamptzType):
                return str(to_json(kind, value))
        return str(value)


@dataclass(frozen=True, slots=True)
class BucketTransform(Transform):
    """The hash of the value, modulo `num_buckets`."""

    num_buckets: int

    def __str__(self) -> str:
        return f"bucket[{self.num_buckets}]"

    def can_transform(self, source: IcebergType) -> bool:
        return isinstance(source, PrimitiveType) and not isinstance(source, _NOT_HASHED)

    def result_type(self, source: IcebergType) -> IcebergType:
        return IntegerType()


@dataclass(frozen=True, slots=True)
class TruncateTransform(Transform):
    """The first `width` characters or bytes, or the number rounded down to a multiple of `width`."""

    width: int

    def __str__(self) -> str:
        return f"truncate[{self.width}]"

    def can_transform(self, source: IcebergType) -> bool:
        return isinstance(source, IntegerType | LongType | DecimalType | StringType | BinaryType)

    def to_human_string(self, kind: IcebergType, value: Any) -> str:
        return b64encode(value).decode() if isinstance(value, bytes) else "null" if value is None else str(value)


class TimeTransform(Transform):
    """A whole number of years, months, days or hours since 1970."""

    __slots__ = ()

    def can_transform(self, source: IcebergType) -> bool:
        return isinstance(source, (DateType, *_TIMESTAMPS))

    def result_type(self, source: IcebergType) -> IcebergType:
        return IntegerType()

    def to_human_string(self, kind: IcebergType, value: Any) -> str:
        return self._spelled(value) if isinstance(value, int) else "null"

    def _spelled(self, value: int) -> str:
        raise NotImplementedError


class YearTransform(TimeTransform):
    __slots__ = ()
    name: ClassVar[str] = "year"

    def _spelled(self, value: int) -> str:
        return f"{1970 + value:04d}"


class MonthTransform(TimeTransform):
    __slots__ = ()
    name: ClassVar[str] = "month"

    def _spelled(self, value: int) -> str:
        return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"


class DayTransform(TimeTransform):
    __slots__ = ()
    name: ClassVar[str] = "day"

    def result_type(self, source: IcebergType) -> IcebergType:
        return DateType()

    def _spelled(self, value: int) -> str:
        return days_to_date(value).isoformat()


class HourTransform(TimeTransform):
    __slots__ = ()
    name: ClassVar[str] = "hour"

    def can_transform(self, source: IcebergType) -> bool:
        return isinstance(source, _TIMESTAMPS)

    def _spelled(self, value: int) -> str:
        return (datetime(1970, 1, 1) + timedelta(hours=value)).isoformat("-", "hours")


class VoidTransform(Transform):
    """Null for every value: a field that partitions no more."""

    __slots__ = ()
    name: ClassVar[str] = "void"

    def can_transform(self, source: IcebergType) -> bool:
        return True

    def to_human_string(self, kind: IcebergType, value: Any) -> str:
        return "null"


class UnknownTransform(Transform):
    """A transform of a later specification. It applies to no type, and its partition values are text."""

    __slots__ = ()
    name: ClassVar[str] = "unknown"

    def result_type(self, source: IcebergType) -> IcebergType:
        return StringType()


@dataclass(frozen=True, slots=True)
class PartitionField:
    source_id: int
    field_id: int
    transform: Transform
    name: str

    def __str__(self) -> str:
        return f"{self.field_id}: {self.name}: {self.transform}({self.source_id})"


@dataclass(frozen=True, slots=True, init=False)
class PartitionSpec:
    """What a table is partitioned by, or was."""

    fields: tuple[PartitionField, ...]
    spec_id: int

    def __init__(self, *fields: PartitionField, spec_id: int = 0) -> None:
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "spec_id", spec_id)


UNPARTITIONED_PARTITION_SPEC = PartitionSpec(spec_id=0)

_PLAIN: Mapping[str, Transform] = MappingProxyType(
    {
        str(transform): transform
        for transform in (
            IdentityTransform(),
            YearTransform(),
            MonthTransform(),
            DayTransform(),
            HourTransform(),
            VoidTransform(),
        )
    }
)
_WITH_NUMBER = re.compile(r"(bucket|truncate)\[(\d+)\]")


def transform_of(text: str) -> Transform:
    """The transform that `text` spells; ValueError for a bucket or truncate without its number."""
    if text in _PLAIN:
        return _PLAIN[text]
    if (found := _WITH_NUMBER.fullmatch(text)) is not None:
        return (BucketTransform if found[1] == "bucket" else TruncateTransform)(int(found[2]))
    if text.startswith(("bucket", "truncate")):
        raise ValueError(f"the transform {text!r} lacks its number")
    return UnknownTransform()


def spec_document(spec: PartitionSpec) -> Document:
    fields = [
        {
            "source-id": field.source_id,
            "field-id": field.field_id,
            "transform": str(field.transform),
            "name": field.name,
        }
        for field in spec.fields
    ]
    return {"spec-id": spec.spec_id, "fields": fields}


def spec_of(document: Document) -> PartitionSpec:
    """The spec of a document, or ValueError, TypeError or LookupError."""
    fields = [
        PartitionField(
            part(field, "source-id", int),
            part(field, "field-id", int),
            transform_of(part(field, "transform", str)),
            part(field, "name", str),
        )
        for field in part(document, "fields", list)
    ]
    return PartitionSpec(*fields, spec_id=part(document, "spec-id", int, 0))


def spec_to_json(spec: PartitionSpec) -> str:
    """The spec as JSON in Iceberg's form."""
    return to_text(spec_document(spec))


def spec_from_json(text: str | bytes) -> PartitionSpec:
    """The spec that `spec_to_json` wrote."""
    return from_stored(spec_of, text, "partition spec")
