"""Rows split by a partition spec."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.model.layout.partition import PartitionTuple
from moulin.model.layout.partition_spec import PartitionSpec
from moulin.model.layout.transform import source_column, transform_array
from moulin.model.schema.single_value import decimal_to_bytes, to_bytes
from moulin.model.schema.values import DecimalType, IcebergType, Schema

_LARGEST_TABLE = 2**20

_Codes = npt.NDArray[np.int64]


def split_by_partition(table: pa.Table, spec: PartitionSpec, schema: Schema) -> list[tuple[PartitionTuple, pa.Table]]:
    """The rows of each partition, in the order in which they came. Rows of one partition alone are not copied."""
    if table.num_rows == 0:
        return []
    codes, tuples = partition_codes(table, spec, schema)
    if len(tuples) == 1:
        return [(tuples[0], table)]
    if np.any(codes[1:] < codes[:-1]):
        small = codes.astype(np.uint16) if len(tuples) <= 2**16 else codes  # NumPy sorts 16-bit numbers by radix
        order = np.argsort(small, kind="stable")
        table, codes = table.take(pa.array(order)), codes[order]
    starts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), table.num_rows]
    return [(tuples[codes[start]], table.slice(start, end - start)) for start, end in pairwise(starts)]


def partition_codes(table: pa.Table, spec: PartitionSpec, schema: Schema) -> tuple[_Codes, list[PartitionTuple]]:
    """The partition of each row, as an index, and the partitions. The table has rows."""
    codes = np.zeros(table.num_rows, np.int64)
    tuples: list[PartitionTuple] = [()]
    for field in spec.fields:
        kind = schema.find_type(field.source_id)
        values = transform_array(field.transform, kind, source_column(table, schema, field.source_id))
        indices, encoded = _encode(field.transform.result_type(kind), values)
        if len(encoded) == 1:
            tuples = [(*head, encoded[0]) for head in tuples]
            continue
        occurring, codes = _compact(codes * len(encoded) + indices, len(tuples) * len(encoded))
        tuples = [(*tuples[code // len(encoded)], encoded[code % len(encoded)]) for code in occurring.tolist()]
    return codes, tuples


def _compact(codes: _Codes, size: int) -> tuple[_Codes, _Codes]:
    """The codes below `size` that occur, and every code as its index among them: so no number of fields overflows."""
    if size > _LARGEST_TABLE:
        occurring, indexes = np.unique(codes, return_inverse=True)
        return occurring, indexes
    occurring = np.flatnonzero(np.bincount(codes, minlength=size))
    lookup = np.zeros(size, np.int64)
    lookup[occurring] = np.arange(len(occurring))
    return occurring, lookup[codes]


def _encode(kind: IcebergType, array: pa.Array) -> tuple[_Codes, list[bytes | None]]:
    """Every value as its index among the distinct ones, and the bytes of those."""
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    encoded = storage.dictionary_encode(null_encoding="encode")
    distinct = encoded.dictionary
    if pa.types.is_temporal(distinct.type):
        distinct = distinct.cast(pa.int32() if pa.types.is_date32(distinct.type) else pa.int64())
    return encoded.indices.to_numpy(), [_to_bytes(kind, value) for value in distinct.to_pylist()]


def encoded_values(kind: IcebergType, array: pa.Array) -> list[bytes | None]:
    """The bytes of the distinct values of an array."""
    return _encode(kind, array)[1]


def _to_bytes(kind: IcebergType, value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(kind, DecimalType):
        return decimal_to_bytes(value)  # unlike `to_bytes`, it takes a value that truncation made a digit longer
    return to_bytes(kind, value)


__all__ = ["encoded_values", "partition_codes", "split_by_partition"]
