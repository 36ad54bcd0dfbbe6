"""Entries of data files as Avro bytes, straight from the facts that the catalog stores.

A table of a hundred thousand segments has as many entries, each with six maps. Building dictionaries and writing them
field by field takes ten times as long. The code here writes exactly the fields of `manifest_schema`, in order.
"""

# Decisions: docs/decisions/0064, docs/decisions/0110

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import fastavro

from moulin._proto.moulin.format.v1 import manifest_pb2 as pb
from moulin.iceberg.format.avro import write_avro
from moulin.iceberg.format.json import Json
from moulin.model.facts import SegmentFacts
from moulin.model.layout.bounds import bound_from_bytes, bound_to_bytes
from moulin.model.schema.values import (
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    Schema,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

# Types of 4 bytes, and of 8, to which they may have been widened.
_NARROW: Final = (IntegerType, FloatType, DateType)
_WIDE: Final = (LongType, DoubleType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)

_BLOCK = 512  # entries of an Avro block
_LEVEL = 1  # of deflate: bounds hardly shrink further, and higher levels take longer than everything else
_NULL, _SOME, _END = b"\x00", b"\x02", b"\x00"  # the branches of a union with null; the end of an array
_PARQUET: Final = b"\x0ePARQUET"


@lru_cache(1 << 16)
def long(value: int) -> bytes:
    """An Avro int or long."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


@lru_cache(1 << 16)
def _pair(key: int, value: int) -> bytes:
    return long(key) + long(value)


class DataEntryEncoder:
    """Encodes entries of data files of one schema, partition type and format version.

    `partition_schema` is the Avro record of a partition tuple.
    """

    def __init__(self, schema: Schema, partition_schema: Json, format_version: int) -> None:
        self._partition_schema = fastavro.parse_schema(partition_schema)
        self._partitions: dict[int, tuple[Mapping[str, Any], bytes]] = {}
        self._numbers: dict[int, tuple[PrimitiveType, int]] = {}
        for field_id in schema.field_ids:
            kind = schema.find_type(field_id)
            if isinstance(kind, (*_NARROW, *_WIDE)):
                self._numbers[field_id] = kind, 4 if isinstance(kind, _NARROW) else 8
        self._floats = {n for n, (kind, _) in self._numbers.items() if isinstance(kind, FloatType | DoubleType)}
        self._lineage = format_version >= 3

    def encode(
        self,
        status: int,
        snapshot_id: int,
        sequence: int | None,
        location: str,
        partition: Mapping[str, Any],
        facts: SegmentFacts,
        columns: pb.SegmentColumns,
        first_row_id: int | None,
    ) -> bytes:
        """One entry. `sequence` and `first_row_id` are None where they are inherited; `partition` is kept as a key."""
        number = _NULL if sequence is None else _SOME + long(sequence)
        where = location.encode()
        parts = [
            long(status), _SOME, long(snapshot_id), number, number,
            b"\x00", long(len(where)), where, _PARQUET, self._partition(partition),
            long(facts.rows), long(facts.size),
        ]  # fmt: skip
        self._maps(parts, columns)
        parts.append(_NULL)  # key_metadata
        offsets = columns.split_offsets
        if offsets:
            parts += (_SOME, long(len(offsets)), *map(long, offsets), _END)
        else:
            parts.append(_NULL)
        parts += (_NULL, _SOME, long(facts.sort_order_id))  # the first is equality_ids
        if self._lineage:
            parts += (_NULL,) if first_row_id is None else (_SOME, long(first_row_id))
        parts.append(_NULL)  # referenced_data_file
        if self._lineage:
            parts += (_NULL, _NULL)  # content_offset, content_size_in_bytes
        return b"".join(parts)

    def _partition(self, partition: Mapping[str, Any]) -> bytes:
        found = self._partitions.get(id(partition))
        if found is None or found[0] is not partition:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, self._partition_schema, dict(partition))
            found = self._partitions[id(partition)] = partition, out.getvalue()
        return found[1]

    def _maps(self, parts: list[bytes], columns: pb.SegmentColumns) -> None:
        """Sizes, counts, nulls, NaNs and bounds by field id; no bounds of a column that may hold NaN.

        Bounds exclude NaN, so engines for which NaN is above all numbers would skip files by them.
        """
        sizes, values, nulls, nans = list[bytes](), list[bytes](), list[bytes](), list[bytes]()
        lower, upper = list[bytes](), list[bytes]()
        fit, floats = self._fit, self._floats
        for column in columns.columns:
            field_id = column.field_id
            sizes.append(_pair(field_id, column.size))
            values.append(_pair(field_id, column.values))
            nulls.append(_pair(field_id, column.nulls))
            if field_id in floats:
                known = column.HasField("nans")
                nans += [_pair(field_id, column.nans)] if known else []
                if column.nans or not known:
                    continue
            if (low := column.lower) or column.HasField("lower"):
                fit(lower, field_id, low)
            if (high := column.upper) or column.HasField("upper"):
                fit(upper, field_id, high)
        for pairs in (sizes, values, nulls, nans):
            parts += (_SOME, long(len(pairs)), *pairs, _END) if pairs else (_SOME, _END)
        for pairs in (lower, upper):
            parts += (_SOME, long(len(pairs) // 2), *pairs, _END) if pairs else (_SOME, _END)

    def _fit(self, pairs: list[bytes], field_id: int, value: bytes) -> None:
        """Add a bound in the type of the manifest's schema: not every reader takes those of another one.

        A column may have been widened since, or (by a restore) be narrower again: such a bound is left out.
        """
        known = self._numbers.get(field_id)
        if known is not None and len(value) != known[1]:
            kind, width = known
            if len(value) > width:
                return
            value = bound_to_bytes(kind, bound_from_bytes(kind, value))
        pairs += (_pair(field_id, len(value)), value)


def avro_file(schema: Json, entries: Sequence[bytes], metadata: Mapping[str, str]) -> bytes:
    """An Avro file of entries that are encoded already."""
    header = write_avro(schema, (), metadata)
    sync = header[-16:]
    parts = [header]
    for start in range(0, len(entries), _BLOCK):
        block = entries[start : start + _BLOCK]
        data = _deflated(block)
        parts += (long(len(block)), long(len(data)), data, sync)
    return b"".join(parts)


def _deflated(parts: Iterable[bytes]) -> bytes:
    made = zlib.compressobj(_LEVEL, zlib.DEFLATED, -15)
    return made.compress(b"".join(parts)) + made.flush()


__all__ = ["DataEntryEncoder", "avro_file", "long"]
