"""Bounds of pages: the column index of a column chunk, in the comparands of the column that it is read as.

They are used if the footer has their checksum and it is right. A segment with such checksums has no column index of a
column that holds NaN.
"""

# Decisions: docs/decisions/0370

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
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
    empty = nulls = np.ones(pages, np.bool_)
    ends: dict[int, Ends] = {}
    walk = thrift.Walk(data, 0)
    try:
        while decode is not None and walk.next() and walk.number <= 5:
            if walk.number == 4:
                walk.skip()
                continue
            count, _, at = thrift.elements(data, walk.at)
            if count != pages:
                return None
            if walk.number == 1:
                empty, walk.at = np.frombuffer(data, np.uint8, pages, at) == 1, at + pages
            elif walk.number == 5:
                nulls = thrift.unsigned_array(data, at, pages) != 0
                break
            else:
                ends[walk.number], walk.at = decode(data, at, empty)
    except (ValueError, IndexError):
        return None
    return Bounds(first_rows, ~empty, nulls, ends[2], ends[3]) if len(ends) == 2 else None


def comparands_in(values: Sequence[Any], kind: IcebergType) -> list[Any]:
    """Comparands of a condition as bounds have them."""
    return [value.encode() for value in values] if isinstance(kind, StringType) else list(values)


_Decoder = Callable[[bytes, int, Flags], tuple[Ends, int]]
"""The values of a list, by where it lies and which pages have none, and where it ends."""


def _decoder(column: pq.ColumnSchema, kind: IcebergType) -> _Decoder | None:
    """How the values of a column index become comparands of `kind`, to which the stored type can be widened."""
    physical = column.physical_type
    if physical in _NUMBERS:
        ratio = time_ratio(json.loads(column.logical_type.to_json()), kind)
        return None if ratio is None else partial(_numbers, np.dtype(_NUMBERS[physical]), ratio)
    return _decimals if isinstance(kind, DecimalType) else _texts


def _numbers(stored: np.dtype[Any], ratio: int, data: bytes, at: int, empty: Flags) -> tuple[Ends, int]:
    """ValueError if one of them does not fit into 64 bits."""
    width, pages = stored.itemsize, len(empty)
    if empty.any():
        texts, end = _texts(data, at, empty)
        body = b"".join(one or bytes(width) for one in texts)
    else:
        end = at + pages * (width + 1)
        every = np.frombuffer(data, np.uint8, end - at, at).reshape(pages, width + 1)
        if (every[:, 0] != width).any():
            raise ValueError("a bound has another width")
        body = every[:, 1:].tobytes()
    values = np.frombuffer(body, stored).astype(np.float64 if stored.kind == "f" else np.int64)
    most = np.iinfo(np.int64).max // ratio
    if len(values) != pages or (ratio > 1 and ((values > most) | (values < -most)).any()):
        raise ValueError("a bound does not fit")
    return (values if ratio == 1 else values * ratio), end


def _decimals(data: bytes, at: int, empty: Flags) -> tuple[Ends, int]:
    texts, end = _texts(data, at, empty)
    return [int.from_bytes(one, "big", signed=True) for one in texts], end


def _texts(data: bytes, at: int, empty: Flags) -> tuple[list[bytes], int]:
    found = []
    for _ in range(len(empty)):
        length, at = thrift.unsigned(data, at)
        found.append(data[at : at + length])
        at += length
    return found, at


__all__ = ["Bounds", "Ends", "Flags", "comparands_in", "parse_bounds"]
