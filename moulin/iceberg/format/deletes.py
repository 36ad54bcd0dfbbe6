"""Deleted rows for Iceberg engines: the stored vectors themselves, or position-delete files in version 2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import AbstractBitMap64

from moulin.formats.deletion_vector import to_array
from moulin.formats.position_deletes import FILE_PATH_ID, POS_ID
from moulin.formats.puffin import data_files, read_puffin_footer
from moulin.model.facts import LiveSegment, VectorFacts
from moulin.storage.store import Store

_PARALLEL_READS = 8

_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(FILE_PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POS_ID)}),
    ]
)


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """The deleted rows of one data file. A deletion vector has an offset in its file, a position-delete file none."""

    location: str
    size: int
    count: int
    data_file: str
    offset: int | None = None
    length: int | None = None
    first: int | None = None
    last: int | None = None

    @property
    def is_vector(self) -> bool:
        return self.offset is not None


def position_deletes(data_file: str, positions: AbstractBitMap64, rows: int) -> bytes:
    """A Parquet file that names these rows of a data file, sorted."""
    rows_deleted = to_array(positions, 0, rows)
    sink = pa.BufferOutputStream()
    table = pa.table([pa.repeat(data_file, len(rows_deleted)), pa.array(rows_deleted, pa.int64())], schema=_SCHEMA)
    pq.write_table(table, sink, compression="zstd", use_dictionary=["file_path"], store_schema=False)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def vector_file(vector: VectorFacts, location: str, size: int, data_file: str) -> DeleteFile:
    """A stored deletion vector, unchanged."""
    return DeleteFile(location, size, vector.cardinality, data_file, vector.offset, vector.length)


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """A Puffin file of the lake: its size, which a manifest must name, and the data file of the vector at each offset.

    Engines find a vector by the address of its data file, which is another one once the lake was moved.
    """

    size: int
    data_files: Mapping[int, str]


def stored_vectors(store: Store, segments: Iterable[LiveSegment]) -> dict[str, StoredVectors]:
    """By path: the Puffin files that hold the vectors of these segments."""
    wanted = sorted({segment.vector.path for segment in segments if segment.vector is not None})

    def read(path: str) -> StoredVectors:
        data = store.get(path)
        return StoredVectors(len(data), data_files(read_puffin_footer(data, source=path)))

    with ThreadPoolExecutor(_PARALLEL_READS) as threads:  # starts a thread only for each file
        return dict(zip(wanted, threads.map(read, wanted), strict=True))


def delete_file_record(delete: DeleteFile, partition: dict[str, Any]) -> dict[str, Any]:
    """The `data_file` of a manifest entry.

    Bounds of the path name the data file for readers that take no notice of `referenced_data_file`. They would look for
    data files of the same partition, and find none where a partition value is NaN, which equals nothing.
    """
    lower = [{"key": FILE_PATH_ID, "value": delete.data_file.encode()}]
    upper = list(lower)
    if not delete.is_vector and delete.first is not None and delete.last is not None:
        lower.append({"key": POS_ID, "value": delete.first.to_bytes(8, "little")})
        upper.append({"key": POS_ID, "value": delete.last.to_bytes(8, "little")})
    return {
        "content": 1,
        "file_path": delete.location,
        "file_format": "PUFFIN" if delete.is_vector else "PARQUET",
        "partition": partition,
        "record_count": delete.count,
        "file_size_in_bytes": delete.size,
        "lower_bounds": lower,
        "upper_bounds": upper,
        "referenced_data_file": delete.data_file,
        "content_offset": delete.offset,
        "content_size_in_bytes": delete.length,
    }


def from_record(record: dict[str, Any]) -> DeleteFile:
    """The delete file of a manifest entry that `delete_file_record` made."""
    first_and_last = [
        int.from_bytes(pair["value"], "little")
        for bounds in (record["lower_bounds"], record["upper_bounds"])
        for pair in bounds or ()
        if pair["key"] == POS_ID
    ]
    return DeleteFile(
        record["file_path"],
        record["file_size_in_bytes"],
        record["record_count"],
        record["referenced_data_file"],
        record.get("content_offset"),
        record.get("content_size_in_bytes"),
        *(first_and_last or (None, None)),
    )
