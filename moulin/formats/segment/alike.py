"""What the footers of many small files tell, read together where one writer wrote them alike.

The first footer is read by pyarrow, as every other one could be. It says which numbers and texts of the walk in
lockstep tell what, and is then read by that walk itself: what does not agree is read by pyarrow alone.
"""

# Decisions: docs/decisions/0690

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from moulin.formats.segment.footer import FooterColumn, StoredAs, column_facts, split_offsets
from moulin.formats.segment.foreign import hidden_keys
from moulin.formats.segment.lockstep import Path, Steps, Walked
from moulin.model.columns.arrays import Integers
from moulin.model.facts import ColumnFacts
from moulin.model.layout.bounds import TRUNCATE_LENGTH

_SCHEMA, _ROWS = 2, (3,)
_VALUES, _SIZE, _DATA, _DICTIONARY, _STATISTICS = 5, 7, 9, 11, 12
_OLD_HIGH, _OLD_LOW, _NULLS, _HIGH, _LOW = 1, 2, 3, 5, 6
# Which statistics of texts count is decided by the writer, and for some old ones by whether both ends are the same.
_TEXTS = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_FORMS = {
    name: struct.Struct(form)
    for name, form in (("BOOLEAN", "<B"), ("INT32", "<i"), ("INT64", "<q"), ("FLOAT", "<f"), ("DOUBLE", "<d"))
}
_FLOATS: Mapping[str, np.dtype[Any]] = {"FLOAT": np.dtype("<f4"), "DOUBLE": np.dtype("<f8")}

Ends = list[tuple[bytes | None, bytes | None]]


@dataclass(frozen=True, slots=True)
class Told:
    """What the footer of a foreign file tells, and where keys lie in it that readers must not know."""

    rows: int
    columns: tuple[ColumnFacts, ...]
    split_offsets: tuple[int, ...]
    hidden_keys: tuple[int, ...]


def told(footer: bytes, metadata: pq.FileMetaData, columns: Mapping[int, FooterColumn]) -> Told:
    """What one footer tells, as pyarrow decodes it: `metadata` has the field ids that `columns` knows."""
    keys = hidden_keys(footer, metadata.metadata)
    return Told(metadata.num_rows, column_facts(metadata, columns, {}), split_offsets(metadata), keys)


class AlikeFooters:
    """Reads the footers that are alike the first one, from the end of the schema on, which is at `start` in all."""

    def __init__(
        self, footer: bytes, start: int, metadata: pq.FileMetaData, columns: Mapping[int, FooterColumn]
    ) -> None:
        """Raises ValueError where the walk does not find what pyarrow does."""
        if metadata.num_row_groups != 1:
            raise ValueError("only files of one row group are read together")
        self._start, self._keys = start, metadata.metadata or {}
        self._steps = Steps(footer, start, _SCHEMA)
        group = metadata.row_group(0)
        known = ((column, group.column(column.index)) for column in columns.values())
        counted = [one for one in known if one[0].facts([group]) is not None]
        self._columns = [_column(column, chunk, self._steps.paths) for column, chunk in counted]
        first = (*_ROWS,), _of_chunk(0, _DATA), _of_chunk(0, _DICTIONARY)
        self._wanted = frozenset([*first, *(path for one in self._columns for path in one.paths)]) & self._steps.paths
        if self.read([footer]) != [told(footer, metadata, columns)]:
            raise ValueError("the walk does not find what pyarrow does")

    def read(self, footers: Sequence[bytes]) -> list[Told | None]:
        """What each footer tells; None for one that is not alike."""
        walked = self._steps.walk(footers, self._start, self._wanted)
        for numbers in walked.numbers.values():
            np.logical_and(walked.alike, numbers >= 0, out=walked.alike)
        for column in self._columns:
            column.check(walked)
        at = np.flatnonzero(walked.alike)
        starts = walked.numbers[_of_chunk(0, _DATA)]
        if _of_chunk(0, _DICTIONARY) in walked.numbers:
            starts = np.minimum(starts, walked.numbers[_of_chunk(0, _DICTIONARY)])
        columns = [column.facts(walked, at) for column in self._columns]
        found: list[Told | None] = [None] * len(footers)
        for index, rows, start, *facts in zip(
            at.tolist(), walked.numbers[_ROWS][at].tolist(), starts[at].tolist(), *columns, strict=True
        ):
            found[index] = Told(rows, tuple(facts), (start,), hidden_keys(footers[index], self._keys))
        return found


def _of_chunk(index: int, *fields: int) -> Path:
    """The path of a field in the metadata of a column chunk of the only row group."""
    return (4, 0, 1, index, 3, *fields)


@dataclass(frozen=True, slots=True)
class _Column:
    """Where the facts of a column are. Without ends it has no bounds; `nulls` is None where none can be."""

    field_id: int
    values: Path
    size: Path
    nulls: Path | None
    ends_at: tuple[Path, ...] = ()  # the least and the greatest value
    again: tuple[Path, ...] = ()  # the same in fields for older readers
    differ: bool = True  # whether the ends, if they are texts, must differ, or must not
    width: int | None = None  # bytes of a value that has a fixed number of them
    ends: Callable[[Walked, Integers, _Column], Ends] | None = None

    @property
    def paths(self) -> list[Path]:
        return [path for path in (self.values, self.size, self.nulls, *self.ends_at, *self.again) if path]

    def check(self, walked: Walked) -> None:
        """Find footers not alike whose statistics pyarrow may understand otherwise."""
        if self.width is not None:
            ends = [walked.fixed(path, self.width) for path in self.ends_at]
            for ours, path in zip(ends, self.again, strict=False):
                same = (walked.fixed(path, self.width) == ours).all(axis=1)
                np.logical_and(walked.alike, same, out=walked.alike)
        elif self.ends_at:
            lows, highs = (walked.texts(path) for path in self.ends_at)
            same = np.fromiter(map(bytes.__eq__, lows, highs), bool, len(lows))
            np.logical_and(walked.alike, same != self.differ, out=walked.alike)
            for texts, path in zip((lows, highs), self.again, strict=False):
                same = np.fromiter(map(bytes.__eq__, texts, walked.texts(path)), bool, len(texts))
                np.logical_and(walked.alike, same, out=walked.alike)

    def facts(self, walked: Walked, at: Integers) -> list[ColumnFacts]:
        """The facts of the footers `at`."""
        numbers = walked.numbers
        values, sizes = numbers[self.values][at].tolist(), numbers[self.size][at].tolist()
        nulls = [0] * len(at) if self.nulls is None else numbers[self.nulls][at].tolist()
        ends: Ends = [(None, None)] * len(at) if self.ends is None else self.ends(walked, at, self)
        return [
            ColumnFacts(self.field_id, count, missing, None, size, *(found if missing < count else (None, None)))
            for count, missing, size, found in zip(values, nulls, sizes, ends, strict=True)
        ]


def _column(column: FooterColumn, chunk: pq.ColumnChunkMetaData, paths: frozenset[Path]) -> _Column:
    def of(*fields: int) -> Path:
        return _of_chunk(column.index, *fields)

    statistics = chunk.statistics if chunk.is_stats_set else None
    nulls = of(_STATISTICS, _NULLS) if statistics is not None and statistics.has_null_count else None
    found = column.field_id, of(_VALUES), of(_SIZE), nulls
    if column.bounds is None or statistics is None or not statistics.has_min_max:
        if column.bounds is not None and of(_STATISTICS, _LOW) in paths:
            raise ValueError("pyarrow does not believe the statistics")
        return _Column(*found)
    new, old = (of(_STATISTICS, _LOW), of(_STATISTICS, _HIGH)), (of(_STATISTICS, _OLD_LOW), of(_STATISTICS, _OLD_HIGH))
    both = paths.issuperset(new) and paths.issuperset(old)
    kind = chunk.physical_type
    form = _FORMS.get(kind)
    if form is None and kind not in _TEXTS:
        raise ValueError(f"statistics of {kind} are not walked")
    return _Column(
        *found,
        new if paths.issuperset(new) else old,
        old if both else (),
        statistics.min_raw != statistics.max_raw,
        None if form is None else form.size,
        _ends(column, kind, form),
    )


def _ends(column: FooterColumn, kind: str, form: struct.Struct | None) -> Callable[[Walked, Integers, _Column], Ends]:
    bounds = column.bounds
    assert bounds is not None

    def decode(raw: bytes) -> Any:
        value: Any = raw if form is None else form.unpack(raw)[0]
        return bool(value & 1) if kind == "BOOLEAN" else value

    as_texts = bounds.stored_as is StoredAs.TEXT

    def one(low: bytes, high: bytes) -> tuple[bytes | None, bytes | None]:
        """As `FooterColumn` has it."""
        ends = bounds.value(decode(low)), bounds.value(decode(high))
        if ends[0] is None or ends[1] is None:
            return None, None
        return bounds.lower(ends[0]), bounds.upper(ends[1])

    def texts(walked: Walked, at: Integers, of: _Column) -> Ends:
        lows, highs = (walked.texts(path) for path in of.ends_at)
        pairs = ((lows[index], highs[index]) for index in at.tolist())
        return [
            (low, high)
            if as_texts and len(low) <= TRUNCATE_LENGTH >= len(high) and low.isascii() and high.isascii()
            else one(low, high)
            for low, high in pairs
        ]

    def fixed(walked: Walked, at: Integers, of: _Column) -> Ends:
        low, high = (walked.fixed(path, of.width or 0)[at] for path in of.ends_at)
        if bounds.stored_as is StoredAs.FLOAT:
            lows, highs = low.view(_FLOATS[kind])[:, 0], high.view(_FLOATS[kind])[:, 0]
            lows[lows == 0], highs[highs == 0] = -0.0, 0.0
            unknown = np.isnan(lows) | np.isnan(highs)
            pairs = zip(_cut(low), _cut(high), unknown.tolist(), strict=True)
            return [(None, None) if nan else (first, last) for first, last, nan in pairs]
        if bounds.stored_as is StoredAs.BOUND:
            return list(zip(_cut(low), _cut(high), strict=True))
        return [one(*pair) for pair in zip(_cut(low), _cut(high), strict=True)]

    return texts if form is None else fixed


def _cut(rows: np.ndarray[Any, np.dtype[np.uint8]]) -> list[bytes]:
    data, width = rows.tobytes(), rows.shape[1]
    return [data[at : at + width] for at in range(0, len(data), width)]


__all__ = ["AlikeFooters", "Told", "told"]
