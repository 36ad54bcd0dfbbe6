"""Texts are decoded with ends of 8 bytes and then given ends of 4: pyarrow takes less time for both than to decode them
with 4, for then it asks of each value whether these are enough.
"""

# Decisions: docs/decisions/0600

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

_NARROW = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
_MOST = (1 << 31) - 1


def open_parquet(
    source: pa.NativeFile,
    *,
    verify: bool,
    metadata: pq.FileMetaData | None = None,
    dictionaries: Collection[str] = (),
    wide: bool = False,
) -> pq.ParquetFile:
    """A Parquet file as readers of segments open it. With `wide`, texts have ends of 8 bytes."""
    return pq.ParquetFile(
        source,
        metadata=metadata,
        page_checksum_verification=verify,
        arrow_extensions_enabled=True,
        coerce_int96_timestamp_unit="us",  # of adopted files: as nanoseconds, far years would wrap around
        read_dictionary=list(dictionaries) or None,
        binary_type=pa.large_binary() if wide else None,
    )


def read_texts(kinds: Iterable[pa.DataType], read: Callable[[bool], pa.Table]) -> pa.Table:
    """What `read(wide)` returns, with texts as `read(False)` returns them. `kinds` are the types of its columns."""
    if not _can_widen(kinds):
        return read(False)
    narrow = _narrowed(read(True))
    return read(False) if narrow is None else narrow


def is_text(kind: pa.DataType) -> bool:
    """Whether values of this type can be decoded in this way."""
    return bool(pt.is_string(kind) or pt.is_binary(kind))


def _can_widen(kinds: Iterable[pa.DataType]) -> bool:
    """Whether there are texts, and all of them are columns."""
    found = False
    for kind in kinds:
        if is_text(kind):
            found = True
        elif pt.is_nested(kind) or pt.is_dictionary(kind) or isinstance(kind, pa.BaseExtensionType):
            return False
    return found


def _narrowed(table: pa.Table) -> pa.Table | None:
    """The same rows with ends of 4 bytes; None where these are not enough."""
    for index, field in enumerate(table.schema):
        if field.type in _NARROW:
            values = narrowed(table.column(index))
            if values is None:
                return None
            table = table.set_column(index, field.with_type(values.type), values)
    return table


def narrowed(values: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Wide texts with ends of 4 bytes; None where these are not enough."""
    kind = _NARROW[values.type]
    chunks = [_narrow(chunk, kind) for chunk in values.chunks]
    return None if any(chunk is None for chunk in chunks) else pa.chunked_array(chunks, kind)


def _narrow(chunk: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Without `cast`, for which pyarrow.compute would be loaded."""
    validity, ends, data = chunk.buffers()
    if ends is None or not len(chunk):
        return pa.array([], kind)
    offsets = np.frombuffer(ends, np.int64)[: chunk.offset + len(chunk) + 1]
    if int(offsets[-1]) > _MOST:
        return None
    small = pa.py_buffer(offsets.astype(np.int32))
    return pa.Array.from_buffers(kind, len(chunk), [validity, small, data], chunk.null_count, chunk.offset)


__all__ = ["is_text", "narrowed", "open_parquet", "read_texts"]
