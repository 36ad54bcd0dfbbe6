"""Bounds of pages: the column index of a column chunk, in the comparands of the column that it is read as.

They are used if the footer has their checksum and it is right. A segment with such checksums has no column index of a
column that holds NaN.
"""

# Decisions: docs/decisions/0370

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from moulin.formats.segment import thrift
from moulin.formats.segment.footer import time_ratio
from moulin.model.columns.arrays import Integers
from moulin.model.schema.values import DecimalType, IcebergType, StringType

Flags = npt.NDArray[np.bool_]
Ends = npt.NDArray[Any] | list[Any]
"""Numbers as an array, all else as a list: bytes, which text is compared as, and decimals of many digits."""

_NUMBERS = {"BOOLEAN": "u1", "INT32": "<i4", "INT64": "<i8", "FLOAT": "<f4", "DOUBLE": "<f8"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of each page, whether it has values that are not null, whether it may have nulls, and its least and greatest
    value, which say nothing where it has none. `first_rows` has one number more, the rows of the row group."""

    first_rows: Integers
    values: Flags
    nulls: Flags
    lower: Ends
    upper: Ends


def parse_bounds(data: bytes, first_rows: Integers, column: pq.ColumnSchema, kind: IcebergType) -> Bounds | None:
    """The bounds in a column index; None when it is not one for these pages, or if it is of no use for the type."""
    decode = _decoder(column, kind)
    pages = len(first_rows) - 1
    lists: dict[int, tuple[int, int]] = {}
    walk = thrift.Walk(data, 0)
    try:
        while walk.next():
            if walk.number in (1, 2, 3, 5):
                count, _, at = thrift.elements(data, walk.at)
                lists[walk.number] = (count, at)
            walk.skip()
        if decode is None or not {1, 2, 3} <= lists.keys() or any(count != pages for count, _ in lists.values()):
            return None
        empty = np.frombuffer(data, np.uint8, pages, lists[1][1]) == 1
        nulls = np.ones(pages, np.bool_)
        if 5 in lists:
            nulls = thrift.unsigned_array(data, lists[5][1], pages) != 0
        lower, upper = (decode(data, lists[number][1], empty) for number in (2, 3))
    except (ValueError, IndexError):
        return None
    return None if lower is None or upper is None else Bounds(first_rows, ~empty, nulls, lower, upper)


def comparands_in(values: Sequence[Any], kind: IcebergType) -> list[Any]:
    """Comparands of a condition as bounds have them."""
    return [value.encode() for value in values] if isinstance(kind, StringType) else list(values)


_Decoder = Callable[[bytes, int, Flags], "Ends | None"]


def _decoder(column: pq.ColumnSchema, kind: IcebergType) -> _Decoder | None:
    """How the values of a column index become comparands of `kind`, to which the stored type can be widened."""
    physical = column.physical_type
    if physical in _NUMBERS:
        ratio = time_ratio(json.loads(column.logical_type.to_json()), kind)
        if ratio is None:
            return None
        stored = np.dtype(_NUMBERS[physical])
        return lambda data, at, empty: _numbers(data, at, empty, stored, ratio)
    if isinstance(kind, DecimalType):
        return lambda data, at, empty: [int.from_bytes(one, "big", signed=True) for one in _texts(data, at, len(empty))]
    return lambda data, at, empty: _texts(data, at, len(empty))


def _numbers(data: bytes, at: int, empty: Flags, stored: np.dtype[Any], ratio: int) -> Ends | None:
    """None if one of them does not fit into 64 bits."""
    width, pages = stored.itemsize, len(empty)
    if empty.any():
        body = b"".join(one or bytes(width) for one in _texts(data, at, pages))
    else:
        every = np.frombuffer(data, np.uint8, pages * (width + 1), at).reshape(pages, width + 1)
        if (every[:, 0] != width).any():
            return None
        body = every[:, 1:].tobytes()
    if len(body) != pages * width:
        return None
    values = np.frombuffer(body, stored).astype(np.float64 if stored.kind == "f" else np.int64)
    if ratio == 1:
        return values
    most = np.iinfo(np.int64).max // ratio
    return None if ((values > most) | (values < -most)).any() else values * ratio


def _texts(data: bytes, at: int, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        length, at = thrift.unsigned(data, at)
        found.append(data[at : at + length])
        at += length
    return found


__all__ = ["Bounds", "Ends", "Flags", "comparands_in", "parse_bounds"]
