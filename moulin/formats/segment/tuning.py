"""Settings for writing segments by level: small and plain for single rows at level 0, for scans above."""

# Decisions: docs/decisions/0691

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from moulin.model.bloom_settings import BloomSetting
from moulin.model.columns import compute as pc
from moulin.model.file_settings import FileSettings
from moulin.model.schema.arrow import leaves

# A dictionary may be this large: values inside of maps share one, and one that is full costs more than it saved.
_DICTIONARY_BYTES = 4 << 20
_SAMPLE_ROWS, _LEAST_SAMPLE, _MOSTLY = 16_384, 1_024, 0.8
_TRIED_ROWS, _MOST_LEFT = 4_096, 0.875  # values that are compressed to see what it brings; less is not worth its time
_FLOATING = "BYTE_STREAM_SPLIT"
_MOST_INTEGER_DIGITS = 18  # decimals of more digits are stored as bytes


@dataclass(frozen=True, slots=True)
class LevelTuning:
    """How the segments of a level are written. Row groups are measured by their rows in memory, pages as encoded."""

    row_group_bytes: int
    page_bytes: int
    encoded: bool
    compression: str
    compression_level: int | None
    dictionary_bytes: int = _DICTIONARY_BYTES
    row_group_rows: int | None = None
    page_rows: int | None = None
    bloom: tuple[BloomSetting, ...] = ()
    spares: bool = True  # leaves floats alone that hardly compress; a codec that a table chose is for every column


LEVELS: tuple[LevelTuning, ...] = (
    LevelTuning(4 << 20, 8 << 10, encoded=False, compression="none", compression_level=None),
    LevelTuning(32 << 20, 32 << 10, encoded=True, compression="zstd", compression_level=1),
    LevelTuning(128 << 20, 128 << 10, encoded=True, compression="zstd", compression_level=1),
)
"""The tuning of each level; deeper levels are like the last."""


def tuning(level: int, settings: FileSettings | None = None) -> LevelTuning:
    """How segments of a level are written. What a table says of its files, in `settings`, holds at every level."""
    tuned = LEVELS[min(level, len(LEVELS) - 1)]
    if settings is None:
        return tuned
    codec, codec_level = settings.compression(tuned.compression, tuned.compression_level)
    return replace(
        tuned,
        row_group_bytes=settings.row_group_bytes or tuned.row_group_bytes,
        page_bytes=settings.page_bytes or tuned.page_bytes,
        compression="none" if codec == "uncompressed" else codec,
        compression_level=codec_level,
        dictionary_bytes=settings.dictionary_bytes or tuned.dictionary_bytes,
        row_group_rows=settings.row_group_rows,
        page_rows=settings.page_rows,
        bloom=settings.bloom,
        spares=settings.codec is None,
    )


def encodings(schema: pa.Schema, tuned: LevelTuning, sample: pa.Table) -> dict[str, Any]:
    """How pyarrow's writer is told to encode each leaf: plain at level 0, above as suits its type and values."""
    if not tuned.encoded:
        return {"use_dictionary": False, "column_encoding": "PLAIN"}
    dictionary, others = [], {}
    for leaf in leaves(schema):
        encoding = _encoding(leaf.type)
        if leaf.path in sample.column_names:
            if encoding is None and _all_differ(sample.column(leaf.path)):
                encoding = "PLAIN"
            elif encoding == _FLOATING and not _all_differ(sample.column(leaf.path)):
                encoding = None  # prices, percentages, settings: few values, and each of them random bits
        if encoding is None:
            dictionary.append(leaf.path)
        else:
            others[leaf.path] = encoding
    return {
        "use_dictionary": dictionary or False,
        "column_encoding": others or None,
        "dictionary_pagesize_limit": tuned.dictionary_bytes,
    }


def compression(
    schema: pa.Schema, tuned: LevelTuning, sample: pa.Table, encoding: Mapping[str, str] | str | None
) -> dict[str, Any]:
    """How pyarrow's writer is told to compress: with one codec, but for those floats that it makes hardly smaller, of
    which `encoding` says that they are split. Who decodes them later has nothing to decompress."""
    left: set[str] = set()
    if isinstance(encoding, Mapping) and tuned.spares and tuned.compression != "none":
        split = (path for path, chosen in encoding.items() if chosen == _FLOATING and path in sample.column_names)
        left = {path for path in split if not _gains(sample.column(path), tuned)}
    if not left:
        return {"compression": tuned.compression, "compression_level": tuned.compression_level}
    codecs = {leaf.path: tuned.compression for leaf in leaves(schema) if leaf.path not in left}
    given = tuned.compression_level is not None and bool(codecs)
    return {
        "compression": codecs or "none",
        "compression_level": dict.fromkeys(codecs, tuned.compression_level) if given else None,
    }


def _gains(column: pa.ChunkedArray, tuned: LevelTuning) -> bool:
    """Whether the first values become smaller by an eighth at least when their bytes are split and compressed."""
    first = column.slice(0, _TRIED_ROWS).drop_null()
    if len(first) < _LEAST_SAMPLE:
        return True
    values = first.to_numpy()
    data = np.ascontiguousarray(values.view(np.uint8).reshape(len(values), -1).T).tobytes()
    codec = pa.Codec(tuned.compression, compression_level=tuned.compression_level)
    return bool(len(codec.compress(data, asbytes=True)) <= _MOST_LEFT * len(data))


def _all_differ(column: pa.ChunkedArray) -> bool:
    """Whether so few of the first values come twice that a dictionary would only add to them."""
    first = column.slice(0, _SAMPLE_ROWS).drop_null()
    if len(first) < _LEAST_SAMPLE:
        return False
    if pt.is_floating(first.type):  # their bits are sorted, which takes a tenth of the time of hashing them
        bits = np.sort(first.to_numpy().view(f"i{first.type.bit_width // 8}"))
        return bool(np.count_nonzero(np.diff(bits)) + 1 > _MOSTLY * len(bits))
    storage = first.cast(first.type.storage_type) if isinstance(first.type, pa.BaseExtensionType) else first
    storage = storage.cast(pa.binary()) if pt.is_fixed_size_binary(storage.type) else storage
    return bool(pc.count_distinct(storage).as_py() > _MOSTLY * len(first))


def _encoding(kind: pa.DataType) -> str | None:
    """None for a dictionary, which gives way to plain when it is full."""
    if pt.is_boolean(kind):
        return "RLE"
    if pt.is_floating(kind):
        return _FLOATING
    if pt.is_integer(kind) or pt.is_temporal(kind) or (pt.is_decimal(kind) and kind.precision <= _MOST_INTEGER_DIGITS):
        return "DELTA_BINARY_PACKED"
    return None
