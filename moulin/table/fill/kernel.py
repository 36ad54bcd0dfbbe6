"""Writes the column file of a segment: row for row beside the segment, in the same row groups, null at deleted rows."""

# Decisions: docs/decisions/0420, docs/decisions/0471, docs/decisions/0692

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any, BinaryIO, cast
from uuid import UUID

import numpy as np
import pyarrow as pa

from moulin.formats.segment.reader import POSITION
from moulin.formats.segment.stitched import stored_name
from moulin.formats.segment.writer import SegmentWriter, nan_fields
from moulin.model.columns.arrays import Integers
from moulin.model.facts import ColumnFile, LiveSegment
from moulin.model.file_settings import FileSettings
from moulin.model.ids import new_id
from moulin.model.schema.arrow import ROW_ID, arrow_schema
from moulin.model.schema.values import NestedField, Schema
from moulin.storage import paths
from moulin.storage.store import Store
from moulin.table.commit.vectors import read_vector
from moulin.table.fill.compute import Compute
from moulin.table.read.footers import open_reader

_HELD_BYTES = 64 << 20  # of values that are looked through for NaN before the first is written
_PUTS = 4  # files on their way while the next is computed


@dataclass(frozen=True)
class FillSlice:
    """Segments to write column files for. `schema` is the one that the fill began with, `fields` what it fills."""

    store: Store
    table_id: UUID
    schema: Schema
    fields: tuple[NestedField, ...]
    compute: Compute
    files: FileSettings
    segments: tuple[LiveSegment, ...]


def fill_segments(work: FillSlice) -> list[ColumnFile]:
    """A column file for each segment. Commits nothing.

    A file is put, and waits for its disk, while the next ones are computed. The first segment of a level says how the
    values of all of them are encoded.
    """
    files: list[ColumnFile] = []
    encoded: dict[int, Mapping[str, Any]] = {}
    with ThreadPoolExecutor(_PUTS, thread_name_prefix="moulin-fill") as pool:
        waiting: deque[Future[None]] = deque()
        for segment in work.segments:
            file, parts = _fill_segment(work, segment, encoded)
            files.append(file)
            if parts:
                waiting.append(pool.submit(work.store.put_fresh, file.path, *parts))
            if len(waiting) > _PUTS:
                waiting.popleft().result()
        for one in waiting:
            one.result()
    return files


def _fill_segment(
    work: FillSlice, segment: LiveSegment, encoded: dict[int, Mapping[str, Any]]
) -> tuple[ColumnFile, Sequence[bytes]]:
    """The file of a segment, and its bytes in parts; a large one is in the store already."""
    path = paths.column_file_path(work.table_id, new_id())
    groups = _groups(work, segment)
    held: list[pa.Table] = []
    size = 0
    for group in groups:
        held.append(group)
        size += group.nbytes
        if size > _HELD_BYTES:
            break
    else:
        nans = frozenset[int]().union(*map(nan_fields, held))
        sink = _Parts()
        return _written(work, segment, path, cast(BinaryIO, sink), held, nans, encoded), sink.parts
    with work.store.writer(path) as file:
        return _written(work, segment, path, file, chain(held, groups), None, encoded), ()


class _Parts:
    """Keeps what is written as it comes: in one piece of memory that grows, it would be copied."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, data: Any) -> int:
        self.parts.append(bytes(data))
        return len(data)


def _written(
    work: FillSlice,
    segment: LiveSegment,
    path: str,
    sink: BinaryIO,
    groups: Iterable[pa.Table],
    nans: frozenset[int] | None,
    encoded: dict[int, Mapping[str, Any]],
) -> ColumnFile:
    writer = SegmentWriter(
        sink,
        schema=stored_schema(work.fields),
        level=segment.facts.level,
        nan_fields=nans,
        settings=work.files,
        positions=False,
        encoded=encoded.get(segment.facts.level),
    )
    for group in groups:
        writer.write_group(group)
    written = writer.finish()
    if writer.encoded is not None:
        encoded.setdefault(segment.facts.level, writer.encoded)
    fields = tuple(field.field_id for field in work.fields)
    return ColumnFile(segment.facts.number, path, written.size, written.sha256, fields, written.columns)


def stored_schema(fields: Sequence[NestedField]) -> Schema:
    """The columns of a column file."""
    return Schema(
        *(NestedField(f.field_id, stored_name(f.field_id), f.field_type, required=False) for f in fields), schema_id=0
    )


def _groups(work: FillSlice, segment: LiveSegment) -> Iterator[pa.Table]:
    facts = segment.facts
    deleted = read_vector(work.store, segment.vector, facts.rows) if segment.vector else None
    columns = [name for name in work.compute.reads if name != ROW_ID]
    wanted = arrow_schema(stored_schema(work.fields))
    with open_reader(work.store, facts, work.schema, columns=columns, also=()) as reader:
        for bundle in reader.bundles():
            live = reader.table(
                row_groups=bundle,
                deleted=deleted,
                position=deleted is not None,
                row_id=ROW_ID in work.compute.reads,
                first_row_id=segment.first_row_id,
            )
            first = reader.group_starts[bundle[0]]
            rows = sum(reader.group_rows[group] for group in bundle)
            if deleted is None:
                values = work.compute.over(live, work.fields)
            else:
                positions = live.column(POSITION).to_numpy() - first
                computed = work.compute.over(live.drop_columns([POSITION]), work.fields)
                values = [_placed(one, positions, rows) for one in computed]
            whole = pa.Table.from_arrays(values, schema=wanted)
            for group in bundle:
                yield whole.slice(reader.group_starts[group] - first, reader.group_rows[group])


def _placed(values: pa.Array, positions: Integers, rows: int) -> pa.Array:
    """Values at their positions in a row group, null at the others."""
    if len(values) == rows:
        return values
    at = np.full(rows, -1, np.int64)
    at[positions] = np.arange(len(values))
    return values.take(pa.array(at, mask=at < 0))


__all__ = ["FillSlice", "fill_segments", "stored_schema"]
