"""Segments: immutable Parquet files, tuned for rows at level 0, for columns above. Layout: docs/formats/segment.md."""

# Decisions: docs/decisions/0164, docs/decisions/0196, docs/decisions/0370, docs/decisions/0691

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from moulin.errors import Closed, InvalidInput
from moulin.formats.segment.bloom_filter import filter_options
from moulin.formats.segment.footer import (
    CHECKSUM_KEY,
    LEVEL_KEY,
    NO_CHECKSUM,
    SCHEMA_KEY,
    FloatFacts,
    column_facts,
    footer_facts,
    sealed,
    sequence_range,
    split_offsets,
)
from moulin.formats.segment.index_checksums import placeholders, with_checksums
from moulin.formats.segment.plan import writer_plan
from moulin.formats.segment.tuning import LEVELS, LevelTuning, compression, encodings, tuning
from moulin.model.columns import compute as pc
from moulin.model.facts import ColumnFacts, SegmentFacts
from moulin.model.file_settings import FileSettings
from moulin.model.layout.bounds import time_range_ns
from moulin.model.rows.leaf_arrays import leaf_arrays
from moulin.model.schema.arrow import stored_position_field
from moulin.model.schema.values import NestedField, Schema

# Pages are cut where a batch of values ends, so wide values need small batches; below the least, batches cost too much.
_LEAST_BATCH = 64
_MOST_BATCH = 1024
_BLOB_BYTES = 16 << 10  # values from this size on, on average, share a page with few others
_SINK_BYTES = 1 << 20
_AS_THE_LEVEL = FileSettings()
# A row group of more pieces than one per so many rows is copied together first: each piece costs the encoder a restart.
_ROWS_PER_PIECE = 8192
# Pages of fewer rows than this are faster to decode than to choose: their indexes get no checksums.
_LEAST_CHECKED = 16_384


@dataclass(frozen=True, slots=True)
class WrittenSegment:
    """What a writer knows of a finished file. `columns` leaves the lineage columns out."""

    rows: int
    size: int
    sha256: bytes
    columns: tuple[ColumnFacts, ...]
    split_offsets: tuple[int, ...]
    has_lineage: bool
    seq_min: int | None
    seq_max: int | None


class SegmentWriter:
    """Writes one segment into `sink`, which it never closes; rows keep the order in which they come.

    Row groups are those of the level, or smaller ones of `row_group_bytes`, unless `settings`, what the table says of
    its files, gives their size. `write` takes rows in the types of `arrow_schema(schema, lineage=lineage)`. After an
    error the writer is closed and what `sink` holds is no segment.
    Not for use from several threads.

    The footer has no statistics of a column that holds NaN: they would leave NaN out, and engines for which NaN is
    above all numbers would skip rows that match. `nan_fields` are the ids of the columns that may hold NaN, as
    `nan_fields` finds them; when it is not given and the rows are more than one row group, no float has statistics.

    Without `positions` the file lacks the column of positions that segments from level 1 on have: column files do.
    `encoded` is how another writer of the same columns and level has `encoded` them; by default the first rows say it.
    """

    def __init__(
        self,
        sink: BinaryIO,
        *,
        schema: Schema,
        level: int,
        lineage: bool = False,
        row_group_bytes: int | None = None,
        metadata: Mapping[str, str] | None = None,
        nan_fields: Collection[int] | None = None,
        settings: FileSettings = _AS_THE_LEVEL,
        positions: bool = True,
        encoded: Mapping[str, Any] | None = None,
    ) -> None:
        if level < 0:
            raise InvalidInput(f"Level {level} does not exist; levels start at 0.")
        self._tuning = tuning(level, settings)
        self._group_bytes = self._tuning.row_group_bytes
        if row_group_bytes is not None and settings.row_group_bytes is None:
            self._group_bytes = min(row_group_bytes, self._group_bytes)
        self._plan = writer_plan(schema, lineage=lineage, positions=self._tuning.encoded and positions)
        self._lineage = lineage
        self._rows = self._groups = 0
        self._filters = False
        self._metadata = {
            **(metadata or {}),
            SCHEMA_KEY: self._plan.document,
            LEVEL_KEY: str(level),
        }
        self._sink = _HashedSink(sink)
        self._file: pq.ParquetWriter | None = None
        self._footer: list[pq.FileMetaData] = []
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._floats: dict[int, list[FloatFacts | None]] = {number: [] for number in self._plan.floats}
        self._nan_fields = nan_fields
        self.encoded = encoded
        self._closed = False

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Add rows. They are kept until there are enough for a row group."""
        self._check_open()
        try:
            table = _checked(
                pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows, self._plan.arrow
            )
            if table.num_rows:
                self._held.append(table)
                self._held_bytes += table.nbytes
            if self._held_bytes >= self._group_bytes:
                self._drain(everything=False)
        except BaseException:
            self.abort()
            raise

    def write_group(self, rows: pa.Table) -> None:
        """Add rows as a row group of their own, whatever their size. REQUIRES: `write` was never called."""
        self._check_open()
        try:
            table = _checked(rows, self._plan.arrow)
            if self._file is None:
                self._nan_fields = frozenset(self._floats) if self._nan_fields is None else self._nan_fields
                self._open(table, table.num_rows)
            self._write_group(table)
        except BaseException:
            self.abort()
            raise

    def finish(self) -> WrittenSegment:
        """Write what is left and the footer. A segment has at least one row."""
        self._check_open()
        try:
            self._drain(everything=True)
            if self._file is None:
                raise InvalidInput("A segment without rows cannot be written; write at least one row, or no segment.")
            self._close(self._file)
        except BaseException:
            self.abort()
            raise
        self._closed = True
        footer = self._footer[0]
        lowest, highest = sequence_range(footer) if self._lineage else (None, None)
        return WrittenSegment(
            rows=footer.num_rows,
            size=self._sink.size,
            sha256=self._sink.digest(),
            columns=column_facts(footer, self._plan.columns(footer), self._floats),
            split_offsets=split_offsets(footer),
            has_lineage=self._lineage,
            seq_min=lowest,
            seq_max=highest,
        )

    def _close(self, file: pq.ParquetWriter) -> None:
        """Write page indexes and footer, with their checksums. The last entry of the footer is its own."""
        leaves = len(self._plan.leaves)
        checked = {}
        if self._rows >= _LEAST_CHECKED:
            checked = placeholders(self._groups * leaves, filters=self._filters)
        file.add_key_value_metadata({**self._metadata, **checked, CHECKSUM_KEY: NO_CHECKSUM})
        with self._sink.accepting():
            self._stream.flush()
        with self._sink.holding() as held:
            file.close()
            self._stream.flush()
        end = bytes(held)
        if checked:
            end = with_checksums(end, self._sink.size, self._groups, leaves, filters=self._filters)
        with self._sink.accepting():
            self._sink.write(sealed(end))

    def abort(self) -> None:
        """Close the writer without a footer. Allowed at any time; after `finish` it does nothing."""
        if not self._closed:
            self._closed = True
            self._held.clear()
            if self._file is not None:
                with suppress(Exception):  # the file is thrown away: what closing it says does not matter
                    self._file.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("This segment writer is closed; write the rows with a new one.")

    def _drain(self, *, everything: bool) -> None:
        if not self._held:
            return
        table = pa.concat_tables(self._held)
        step = max(1, table.num_rows * self._group_bytes // max(self._held_bytes, 1))
        step = min(step, self._tuning.row_group_rows or step)
        end = table.num_rows if everything else table.num_rows - table.num_rows % step
        if self._file is None:
            if self._nan_fields is None:
                self._nan_fields = nan_fields(table) if everything else frozenset(self._floats)
            self._open(table, step)
        for start in range(0, end, step):
            self._write_group(table.slice(start, min(step, end - start)))
        rest = table.slice(end)
        self._held = [rest] if rest.num_rows else []
        self._held_bytes = rest.nbytes if rest.num_rows else 0

    def _open(self, sample: pa.Table, group_rows: int) -> None:
        self._stream = pa.BufferedOutputStream(pa.PythonFile(self._sink, mode="w"), _SINK_BYTES)
        widest = max(column.nbytes for column in sample.columns) / sample.num_rows
        least = 1 if widest >= _BLOB_BYTES else _LEAST_BATCH
        batch = max(least, min(_MOST_BATCH, -int(-self._tuning.page_bytes // max(widest, 1))))
        batch = min(batch, self._tuning.page_rows or batch)
        filters = {}
        if self._tuning.bloom and sample.num_rows >= _LEAST_CHECKED:
            filters = filter_options(self._tuning.bloom, self._plan.leaves, sample, group_rows)
        self._filters = bool(filters)
        if self.encoded is None:
            chosen = encodings(self._plan.stored, self._tuning, sample)
            codecs = compression(self._plan.stored, self._tuning, sample, chosen["column_encoding"])
            self.encoded = {**chosen, **codecs}
        self._file = pq.ParquetWriter(
            self._stream,
            self._plan.stored,
            version="2.6",
            data_page_version="1.0",
            data_page_size=self._tuning.page_bytes,
            write_batch_size=batch,
            write_statistics=[leaf.path for leaf in self._plan.leaves if leaf.field_id not in (self._nan_fields or ())],
            write_page_index=True,
            write_page_checksum=True,
            store_schema=False,
            store_decimal_as_integer=True,
            metadata_collector=self._footer,
            max_rows_per_page=self._tuning.page_rows,
            bloom_filter_options=filters or None,
            **self.encoded,
        )

    def _write_group(self, table: pa.Table) -> None:
        assert self._file is not None
        if table.column(0).num_chunks > 1 + table.num_rows // _ROWS_PER_PIECE:
            table = table.combine_chunks()
        counted = _float_facts(table, self._nan_fields or ())
        for number, facts in self._floats.items():
            facts.append(counted.get(number))
        first, self._rows, self._groups = self._rows, self._rows + table.num_rows, self._groups + 1
        if self._plan.stored is not self._plan.arrow:
            table = table.append_column(stored_position_field(), pa.array(np.arange(first, self._rows)))
        try:
            with self._sink.accepting():
                self._file.write_table(table, row_group_size=table.num_rows)
        except pa.ArrowInvalid as error:
            raise InvalidInput(f"Rows do not fit the schema of their table: {str(error).splitlines()[0]}.") from error


def segment_facts(
    written: WrittenSegment,
    *,
    number: int,
    path: str,
    level: int,
    schema_id: int,
    spec_id: int,
    partition: tuple[bytes | None, ...],
    event_time_field: NestedField | None,
    sort_order_id: int,
) -> SegmentFacts:
    """The facts of a written file, with what only its table knows. The event time's range comes from its bounds."""
    time_min = time_max = None
    if event_time_field is not None:
        time = next((facts for facts in written.columns if facts.field_id == event_time_field.field_id), None)
        if time is not None and time.lower is not None and time.upper is not None:
            time_min, time_max = time_range_ns(event_time_field.field_type, time.lower, time.upper)
    return SegmentFacts(
        number=number,
        path=path,
        rows=written.rows,
        size=written.size,
        level=level,
        schema_id=schema_id,
        spec_id=spec_id,
        partition=partition,
        sha256=written.sha256,
        columns=written.columns,
        time_min=time_min,
        time_max=time_max,
        has_lineage=written.has_lineage,
        seq_min=written.seq_min,
        seq_max=written.seq_max,
        sort_order_id=sort_order_id,
        split_offsets=written.split_offsets,
    )


def _checked(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """`table` with the field ids of `schema`, whose names and types it must have already."""
    if table.column_names != schema.names:
        raise InvalidInput(f"Rows have the columns {table.column_names}, but the segment has {schema.names}.")
    for field, column in zip(schema, table.columns, strict=True):
        if column.type != field.type:
            raise InvalidInput(f"Column {field.name!r} has Arrow type {column.type}; the segment needs {field.type}.")
        if not field.nullable and column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            raise InvalidInput(f"Column {field.name!r} is required, but row {row} of those written has null.")
    return table if table.schema is schema else pa.Table.from_arrays(table.columns, schema=schema)


def nan_fields(table: pa.Table) -> frozenset[int]:
    """The ids of the float and double leaves that hold NaN."""
    return frozenset(
        number
        for field, column in zip(table.schema, table.columns, strict=True)
        for number, values in _floating(field, column)
        if pc.any(pc.is_nan(values)).as_py()
    )


def _float_facts(table: pa.Table, numbers: Collection[int]) -> dict[int, FloatFacts]:
    """Facts of the float and double leaves with these field ids."""
    found: dict[int, FloatFacts] = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        for number, values in _floating(field, column) if numbers else ():
            if number in numbers:
                known = values.drop_null()
                finite = known.filter(pc.invert(pc.is_nan(known)))
                ends = pc.min_max(finite).as_py() if len(finite) else None
                found[number] = FloatFacts(
                    len(known), len(known) - len(finite), None if ends is None else (ends["min"], ends["max"])
                )
    return found


def _floating(field: pa.Field, column: pa.ChunkedArray) -> Iterator[tuple[int, pa.ChunkedArray]]:
    """The float and double leaves in a column, without what lies below nulls."""
    return ((number, values) for number, values in leaf_arrays(field, column) if pt.is_floating(values.type))


class _HashedSink(io.RawIOBase):
    """Counts and hashes what passes to `sink`.

    Outside of `accepting` and `holding` it swallows everything: pyarrow writes a footer even when a writer is dropped
    half-way, at a time when nobody wants it and `sink` may be gone.
    """

    def __init__(self, sink: BinaryIO) -> None:
        self.size = 0
        self._sink = sink
        self._hash = hashlib.sha256()
        self._take: Callable[[Any], object] | None = None

    @contextmanager
    def accepting(self) -> Iterator[None]:
        self._take = self._pass
        try:
            yield
        finally:
            self._take = None

    @contextmanager
    def holding(self) -> Iterator[bytearray]:
        """Collect what is written instead of passing it on."""
        held = bytearray()
        self._take = held.extend
        try:
            yield held
        finally:
            self._take = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self._take is not None:
            self._take(data)
        return len(data)

    def _pass(self, data: Any) -> None:
        self._hash.update(data)
        self._sink.write(data)
        self.size += len(data)

    def digest(self) -> bytes:
        return self._hash.digest()


__all__ = [
    "LEVELS",
    "LEVEL_KEY",
    "SCHEMA_KEY",
    "LevelTuning",
    "SegmentWriter",
    "WrittenSegment",
    "footer_facts",
    "nan_fields",
    "segment_facts",
    "tuning",
]
