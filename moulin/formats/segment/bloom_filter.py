"""Bloom filters of column chunks: split blocks with XXH64, as the Parquet format describes them.

pyarrow writes them. Floats and booleans get none: 0.0 equals -0.0 and has other bits, and two values need no filter.
"""

# Decisions: docs/decisions/0371

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from moulin.formats.segment import thrift
from moulin.formats.segment.footer import time_ratio
from moulin.formats.segment.xxh64 import xxh64
from moulin.model.bloom_settings import BloomSetting
from moulin.model.columns import compute as pc
from moulin.model.schema.arrow import Leaf
from moulin.model.schema.values import IcebergType

_BLOCK = 32
_SALT = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
_MASK = 0xFFFFFFFF
HEADER_BYTES = 64  # a header takes about 17


def filter_options(
    settings: Sequence[BloomSetting], leaves: Sequence[Leaf], sample: pa.Table, group_rows: int
) -> dict[str, dict[str, float]]:
    """What pyarrow's writer is told, by the path of a leaf; names that the file lacks have no effect.

    Filters are sized for as many values as the first row group has, unless the table says how many.
    """
    known = {leaf.path: leaf for leaf in leaves if not leaf.repeated}
    found: dict[str, dict[str, float]] = {}
    for setting in settings:
        leaf = known.get(setting.column)
        if leaf is None or pt.is_floating(leaf.type) or pt.is_boolean(leaf.type):
            continue
        ndv = setting.ndv or _distinct(sample.slice(0, group_rows), setting.column)
        size = -8 * ndv / math.log(1 - setting.fpp**0.125) / 8
        # pyarrow makes the size a power of two.
        most = 1 << (setting.most_bytes.bit_length() - 1)
        found[setting.column] = {"ndv": max(1, int(ndv * min(1.0, most / size))), "fpp": setting.fpp}
    return found


def _distinct(rows: pa.Table, path: str) -> int:
    name, *inner = path.split(".")
    if path in rows.column_names:
        name, inner = path, []
    column = rows.column(name)
    for field in inner:
        column = pc.struct_field(column, field)
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    if pt.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    return max(1, int(pc.count_distinct(column).as_py()))


def stored_bytes(comparands: Sequence[Any], column: pq.ColumnSchema, kind: IcebergType) -> Iterator[bytes]:
    """Comparands of type `kind` as the column stores them, without those that it cannot hold. ValueError for a column
    that has no filters."""
    physical = column.physical_type
    width = {"INT32": 4, "INT64": 8, "FIXED_LEN_BYTE_ARRAY": column.length}.get(physical)
    ratio = time_ratio(json.loads(column.logical_type.to_json()), kind)
    for value in comparands:
        if isinstance(value, str | bytes):
            yield value.encode() if isinstance(value, str) else value
        elif width is None or ratio is None:
            raise ValueError(f"no bloom filter of {physical} is known")
        elif value % ratio == 0:
            number = value // ratio
            if number.bit_length() < 8 * width or number == -(1 << (8 * width - 1)):
                yield number.to_bytes(width, "little" if physical.startswith("INT") else "big", signed=True)


def parse_header(data: bytes) -> tuple[int, int]:
    """Where the bits of a filter begin and how many bytes they take. ValueError for a kind that is not known."""
    size, kinds = 0, 0
    walk = thrift.Walk(data, 0)
    while walk.next():
        if walk.number == 1:
            size = walk.integer()
        else:
            kinds += data[walk.at] == 0x1C  # the first of each union: split block, XXH64, not compressed
            walk.skip()
    if kinds != 3 or size <= 0 or size % _BLOCK:
        raise ValueError("a bloom filter of an unknown kind")
    return walk.at, size


def may_hold(values: Sequence[bytes], size: int, read: Callable[[int, int], bytes]) -> bool:
    """Whether one of the values may be in the filter. `read(start, length)` reads from its `size` bytes of bits."""
    for value in values:
        hashed = xxh64(value)
        block = ((hashed >> 32) * (size // _BLOCK)) >> 32
        words = read(block * _BLOCK, _BLOCK)
        key = hashed & _MASK
        if all(
            int.from_bytes(words[4 * index : 4 * index + 4], "little") >> (((key * salt) & _MASK) >> 27) & 1
            for index, salt in enumerate(_SALT)
        ):
            return True
    return False


__all__ = ["HEADER_BYTES", "filter_options", "may_hold", "parse_header", "stored_bytes"]
