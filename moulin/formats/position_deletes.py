"""Rows of data files that Iceberg engines deleted, as their delete files name them: by position."""

# Decisions: docs/decisions/0065, docs/decisions/0480

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from moulin.errors import Corrupt, InvalidInput, Unsupported
from moulin.formats import deletion_vector
from moulin.model.schema.arrow import field_id

FILE_PATH_ID: Final = 2147483546
POS_ID: Final = 2147483545
"""Iceberg's reserved field ids of the columns of a position delete file."""

_VECTOR_EXTENT = ("content_offset", "content_size_in_bytes", "referenced_data_file")


def deleted_positions(data: bytes, record: Mapping[str, Any]) -> Iterator[tuple[str, BitMap64]]:
    """Locations of data files, and the rows of them that one delete file names.

    `data` is the whole file and `record` describes it, as an entry of a manifest does. InvalidInput says what is wrong.
    """
    kind, where = str(record["file_format"]).upper(), record["file_path"]
    if kind == "PUFFIN":
        offset, length, target = (record.get(n) for n in _VECTOR_EXTENT)
        if not isinstance(offset, int) or not isinstance(length, int) or not target:
            raise InvalidInput(f"{where}: a deletion vector needs content_offset, size and referenced_data_file.")
        try:
            positions = deletion_vector.decode(data[offset : offset + length], source=f"{where} at {offset}")
        except Corrupt as error:
            raise InvalidInput(error.message) from None
        if len(positions) != record["record_count"]:
            raise InvalidInput(f"{where} at {offset} has {len(positions)} rows, not {record['record_count']}.")
        yield target, positions
    elif kind == "PARQUET":
        yield from _position_file(where, data, record["record_count"])
    else:
        raise Unsupported(f"{where} is {kind}: delete files are Parquet or Puffin.")


def _position_file(where: str, data: bytes, rows: int) -> Iterator[tuple[str, BitMap64]]:
    try:
        table = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidInput(f"{where} cannot be read ({str(error).splitlines()[0][:200]}).") from None
    columns = {field_id(one): one.name for one in table.schema}
    if FILE_PATH_ID not in columns or POS_ID not in columns or table.num_rows != rows:
        raise InvalidInput(f"{where} is not a file of {rows} position deletes.")
    names, positions = table[columns[FILE_PATH_ID]], table[columns[POS_ID]]
    if names.null_count or positions.null_count:
        raise InvalidInput(f"{where} holds nulls where files and positions belong.")
    for name in pc.unique(names).to_pylist():
        mine = positions.filter(pc.equal(names, name)).to_numpy()
        if mine.min() < 0:
            raise InvalidInput(f"{where} holds a negative position.")
        yield name, deletion_vector.from_positions(mine)


__all__ = ["FILE_PATH_ID", "POS_ID", "deleted_positions"]
