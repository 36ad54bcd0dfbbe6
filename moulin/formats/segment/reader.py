"""Reads segments, and Parquet files of other engines that carry field ids. Layout: docs/formats/segment.md."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TypedDict, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from moulin.errors import Closed, Corrupt, InvalidInput, MoulinError, NotFound, Unavailable, Unsupported
from moulin.formats.deletion_vector import keep_mask
from moulin.formats.segment.footer import LEVEL_KEY, RESTORE, FooterColumn, GroupFacts, footer_columns, read_footer
from moulin.formats.segment.row_mapping import RowMapping
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers
from moulin.model.facts import ColumnFacts
from moulin.model.predicate.evaluation import evaluate
from moulin.model.schema.arrow import (
    LAST_UPDATED_SEQUENCE_FIELD_ID,
    POSITION,
    ROW_ID_FIELD_ID,
    Leaf,
    leaves,
    lineage_fields,
)
from moulin.model.schema.values import Schema

BATCH_ROWS = 131_072

# Row groups are decoded together until they hold so many rows or bytes: a call per small row group costs time, and
# so does one for all, for then pyarrow makes a single array of each column, which it copies whenever it grows.
_DECODE_ROWS = 1 << 18
_DECODE_BYTES = 16 << 20
_FIRST_PIECE_ROWS = 256  # of a file whose rows are of unknown width
_LEAST_PIECE_ROWS = 16

_ROW_ID_FIELD, _SEQUENCE_FIELD = lineage_fields()
_POSITION_FIELD = pa.field(POSITION, pa.int64(), nullable=False)


class ReadOptions(TypedDict, total=False):
    """What to read of a file; all of it when nothing is said. Positions count every row of the file, deleted ones too.

    The columns of the reader come first, then `_row_id`, `_last_updated_sequence_number` and `_pos`, where asked for.
    """

    start: int
    """Only rows from this position on; row groups that are not touched are not decoded."""
    stop: int | None
    """Only rows before this position."""
    row_groups: Sequence[int] | None
    """Only these row groups, in the file's order."""
    keep_group: Callable[[Mapping[int, ColumnFacts], int], bool] | None
    """Asked for each row group with its facts by field id, and its rows: False skips it."""
    deleted: BitMap64 | None
    """Positions to leave out."""
    expression: pc.Expression | None
    """Only rows for which this is true. It may name columns of the reader, `extra_columns` and those added below."""
    extra_columns: Sequence[str]
    """Columns that `expression` needs; those that the reader does not give are read, and not given."""
    position: bool
    """Add `_pos`, the position of each row."""
    row_id: bool
    """Add `_row_id`: as stored, or where it is not, `first_row_id` + position."""
    first_row_id: int | None
    sequence: bool
    """Add `_last_updated_sequence_number`: as stored, or where it is not, `sequence_number`."""
    sequence_number: int | None
    use_threads: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    start: int = 0
    stop: int | None = None
    row_groups: Sequence[int] | None = None
    keep_group: Callable[[Mapping[int, ColumnFacts], int], bool] | None = None
    deleted: BitMap64 | None = None
    expression: pc.Expression | None = None
    extra_columns: Sequence[str] = ()
    position: bool = False
    row_id: bool = False
    first_row_id: int | None = None
    sequence: bool = False
    sequence_number: int | None = None
    use_threads: bool = True


@dataclass(frozen=True, slots=True)
class _Range:
    """Rows [start, stop) of the file, all in one row group."""

    group: int
    start: int
    stop: int


class SegmentReader:
    """One file, read with `schema` by field id; `columns` names the top-level columns to give, in order (None: all).

    `source` is a path or a random-access file, which `close` closes. `name` stands for the file in messages. With
    `verify`, the checksum of every page that is read is checked; the footer's always is. Damage raises Corrupt. A
    reader belongs to one thread.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | pa.NativeFile,
        schema: Schema,
        *,
        columns: Sequence[str] | None = None,
        name: str | None = None,
        verify: bool = True,
    ) -> None:
        path = os.fspath(source) if isinstance(source, str | os.PathLike) else None
        self.name = name or path or "the segment"
        self._schema = schema
        self._columns = tuple(field.name for field in schema.fields) if columns is None else tuple(columns)
        self._mappings: dict[tuple[str, ...], RowMapping] = {}
        self._closed = False
        self._own = False
        with self._reading():
            self._source: pa.NativeFile = source if path is None else pa.OSFile(path)
            self._metadata: pq.FileMetaData = read_footer(self._source, self.name)
            self._own = LEVEL_KEY.encode() in (self._metadata.metadata or {})
            self._file = pq.ParquetFile(
                self._source, metadata=self._metadata, page_checksum_verification=verify, arrow_extensions_enabled=True
            )
            self._arrow: pa.Schema = self._file.schema_arrow
        self._leaves = leaves(self._arrow)
        groups = range(self._metadata.num_row_groups)
        self.rows: int = self._metadata.num_rows
        self.group_rows: tuple[int, ...] = tuple(self._metadata.row_group(group).num_rows for group in groups)
        self.group_starts: tuple[int, ...] = tuple(accumulate(self.group_rows, initial=0))[:-1]
        if sum(self.group_rows) != self.rows or len(self._leaves) != self._metadata.num_columns:
            raise self._damaged("its footer contradicts itself")
        self._mapping(self._columns)

    @property
    def has_lineage(self) -> bool:
        """Whether the file stores `_row_id` and `_last_updated_sequence_number`."""
        return self._row_id_leaf is not None and self._sequence_leaf is not None

    @property
    def row_id_ranges(self) -> list[tuple[int, int, bool]]:
        """Per row group the lowest and highest row id that is stored, and whether rows may be without one.

        What statistics do not say is as wide as it can be; an empty range is (0, -1).
        """
        widest = (0, np.iinfo(np.int64).max - 1, True)
        if (leaf := self._row_id_leaf) is None:
            return [(0, -1, True)] * len(self.group_rows)
        found = []
        for group, rows in enumerate(self.group_rows):
            facts = self._metadata.row_group(group).column(leaf.index).statistics
            if facts is None or not facts.has_null_count:
                found.append(widest)
            elif facts.has_min_max:
                found.append((int(facts.min), int(facts.max), facts.null_count > 0))
            else:
                found.append((0, -1, True) if facts.null_count == rows else widest)
        return found

    def table(self, **options: Unpack[ReadOptions]) -> pa.Table:
        """The rows that `options` choose."""
        read = _Options(**options)
        tables = [self._read(ranges, read) for ranges in self._bundles(self._ranges(read))] or [self._read([], read)]
        if tables[0].num_columns:
            return pa.concat_tables(tables)
        return _nothing(sum(table.num_rows for table in tables))

    def batches(self, *, batch_rows: int = BATCH_ROWS, **options: Unpack[ReadOptions]) -> Iterator[pa.RecordBatch]:
        """The rows that `options` choose, in batches of at most `batch_rows`; few row groups are held at a time."""
        read = _Options(**options)
        for ranges in self._bundles(self._ranges(read)):
            yield from _batches(self._read(ranges, read), batch_rows)

    def pieces(self, piece_bytes: int, **options: Unpack[ReadOptions]) -> Iterator[pa.Table]:
        """The rows that `options` choose, in pieces of about `piece_bytes` decoded; never a whole row group is decoded.

        What is held of the file is encoded but for one piece, however well it compresses. Pieces may be empty.
        """
        read = _Options(**options)
        wanted = _FIRST_PIECE_ROWS
        for one in self._ranges(read):
            at = one.start
            while at < one.stop:
                rows = wanted
                for raw, indices in self._raw_pieces(_Range(one.group, at, one.stop), rows, read):
                    yield self._finish(raw, indices, [range(at, at + raw.num_rows)], read)
                    at += raw.num_rows
                    width = max(raw.nbytes / raw.num_rows, 0.125)
                    wanted = max(_LEAST_PIECE_ROWS, min(BATCH_ROWS, int(piece_bytes / width)))
                    if wanted > 2 * rows or 2 * wanted < rows:
                        break  # go on with pieces of another size; the row group is decoded up to here again

    def close(self) -> None:
        self._closed = True
        self._source.close()

    def __enter__(self) -> SegmentReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ranges(self, read: _Options) -> list[_Range]:
        groups = range(len(self.group_rows)) if read.row_groups is None else sorted(set(read.row_groups))
        if any(not 0 <= group < len(self.group_rows) for group in groups):
            raise InvalidInput(f"{self.name} has {len(self.group_rows)} row groups; {list(groups)} are not all there.")
        end = self.rows if read.stop is None else read.stop
        found = []
        for group in groups:
            first, rows = self.group_starts[group], self.group_rows[group]
            start, stop = max(first, read.start), min(first + rows, end)
            if start < stop and (read.keep_group is None or read.keep_group(self._group_facts(group), rows)):
                found.append(_Range(group, start, stop))
        return found

    def _bundles(self, ranges: Sequence[_Range]) -> Iterator[list[_Range]]:
        """The ranges, cut into lists to decode together."""
        bundle: list[_Range] = []
        rows = size = 0
        for one in ranges:
            bundle.append(one)
            rows += self.group_rows[one.group]
            size += self._metadata.row_group(one.group).total_byte_size
            if rows >= _DECODE_ROWS or size >= _DECODE_BYTES:
                yield bundle
                bundle, rows, size = [], 0, 0
        if bundle:
            yield bundle

    def _group_facts(self, group: int) -> GroupFacts:
        return GroupFacts(self._footer_columns, self._metadata.row_group(group))

    def _read(self, ranges: Sequence[_Range], read: _Options) -> pa.Table:
        stored = self._stored_leaves(read)
        return self._finish(self._decode(ranges, stored, read.use_threads), stored, _stretches(ranges), read)

    def _stored_leaves(self, read: _Options) -> list[int]:
        """The leaf columns to decode."""
        lineage = [self._row_id_leaf] if read.row_id else []
        lineage += [self._sequence_leaf] if read.sequence else []
        mapping = self._mapping((*self._columns, *self._extra(read)))
        return sorted({*mapping.leaves, *(leaf.index for leaf in lineage if leaf is not None)})

    def _extra(self, read: _Options) -> list[str]:
        """Columns that only the filter needs."""
        if read.expression is None:
            return []
        return [name for name in read.extra_columns if name not in self._columns]

    def _finish(self, raw: pa.Table, stored: Sequence[int], stretches: Sequence[range], read: _Options) -> pa.Table:
        """The rows to give, from leaf columns as they are stored at the positions of `stretches`."""
        extra = self._extra(read)
        mapping = self._mapping((*self._columns, *extra))
        lineage = [(_ROW_ID_FIELD, self._row_id_leaf)] if read.row_id else []
        lineage += [(_SEQUENCE_FIELD, self._sequence_leaf)] if read.sequence else []
        index_of = {column: at for at, column in enumerate(sorted({self._leaves[leaf].column for leaf in stored}))}
        table = mapping.apply(raw.select(sorted({index_of[self._leaves[leaf].column] for leaf in mapping.leaves})))
        for field, leaf in lineage:
            column = None if leaf is None else raw.column(index_of[leaf.column]).cast(field.type)
            table = table.append_column(field, self._lineage(field, column, stretches, read))
        if read.position:
            table = table.append_column(_POSITION_FIELD, pa.array(_positions(stretches)))
        mask = self._mask(table, stretches, read)
        table = table.drop_columns(extra) if extra else table
        return table if mask is None else table.filter(mask)

    def _decode(self, ranges: Sequence[_Range], indices: Sequence[int], use_threads: bool) -> pa.Table:
        """The rows of the ranges, one after the other, of some leaf columns."""
        if self._closed:
            raise Closed(f"The reader of {self.name} is closed; open the file again.")
        if not indices:
            return _nothing(sum(one.stop - one.start for one in ranges))
        groups = [one.group for one in ranges]
        with self._reading():
            table = self._file.reader.read_row_groups(groups, column_indices=list(indices), use_threads=use_threads)
        if table.num_rows != sum(self.group_rows[group] for group in groups):
            raise self._damaged(f"row groups {groups} hold {table.num_rows} rows, which is not what its footer says")
        table = table.replace_schema_metadata(None)
        pieces, at = [], 0
        for one in ranges:
            pieces.append(table.slice(at + one.start - self.group_starts[one.group], one.stop - one.start))
            at += self.group_rows[one.group]
        rows = sum(one.stop - one.start for one in ranges)
        return table if rows == table.num_rows else pa.concat_tables(pieces)

    def _raw_pieces(self, one: _Range, rows: int, read: _Options) -> Iterator[tuple[pa.Table, list[int]]]:
        """The rows of a range, `rows` at a time, of the leaf columns to decode, and which these are."""
        if self._closed:
            raise Closed(f"The reader of {self.name} is closed; open the file again.")
        stored = self._stored_leaves(read)
        if not stored:
            yield _nothing(one.stop - one.start), stored
            return
        at = self.group_starts[one.group]
        with self._reading():
            batches = self._file.reader.iter_batches(rows, [one.group], column_indices=stored, use_threads=False)
        while at < one.stop:
            with self._reading():
                batch = next(batches, None)
            if batch is None:
                raise self._damaged(f"row group {one.group} ends at {at}, which is not what its footer says")
            first, at = at, at + batch.num_rows
            start, stop = max(first, one.start), min(at, one.stop)
            if start < stop:
                table = pa.Table.from_batches([batch]).replace_schema_metadata(None)
                yield table.slice(start - first, stop - start), stored

    def _lineage(
        self, field: pa.Field, stored: pa.ChunkedArray | None, stretches: Sequence[range], read: _Options
    ) -> pa.Array | pa.ChunkedArray:
        """A lineage column: what is stored, and where nothing is, what follows from the numbers of the commit."""
        if stored is not None and not stored.null_count:
            return stored
        given = read.first_row_id if field is _ROW_ID_FIELD else read.sequence_number
        if given is None and stretches:
            raise InvalidInput(f"{self.name} does not store {field.name} of every row: give the numbers of its commit.")
        given = given or 0
        if field is _ROW_ID_FIELD:
            derived = pa.array(_positions(stretches) + given)
        else:
            derived = pa.repeat(pa.scalar(given, pa.int64()), sum(map(len, stretches)))
        return derived if stored is None else pc.coalesce(stored, derived)

    def _mask(self, table: pa.Table, stretches: Sequence[range], read: _Options) -> pa.Array | pa.ChunkedArray | None:
        """True for the rows to give; None for all."""
        kept = None if read.deleted is None else _kept(read.deleted, stretches)
        if read.expression is None:
            return kept
        try:
            found = evaluate(read.expression, table)
        except (pa.ArrowException, KeyError, TypeError) as error:
            raise InvalidInput(f"The filter {read.expression} cannot be used: {str(error).splitlines()[0]}.") from error
        if found.type != pa.bool_():
            raise InvalidInput(f"The filter {read.expression} is not true or false, but of Arrow type {found.type}.")
        return found if kept is None else pc.and_(found, kept)

    def _mapping(self, columns: tuple[str, ...]) -> RowMapping:
        if columns not in self._mappings:
            self._mappings[columns] = RowMapping(self._arrow, self._schema, columns, name=self.name)
        return self._mappings[columns]

    @cached_property
    def _footer_columns(self) -> dict[int, FooterColumn]:
        return footer_columns(self._metadata, self._schema)

    @cached_property
    def _row_id_leaf(self) -> Leaf | None:
        return self._leaf(ROW_ID_FIELD_ID)

    @cached_property
    def _sequence_leaf(self) -> Leaf | None:
        return self._leaf(LAST_UPDATED_SEQUENCE_FIELD_ID)

    def _leaf(self, number: int) -> Leaf | None:
        return next((leaf for leaf in self._leaves if leaf.field_id == number), None)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Every error in here means that the file is missing, out of reach or damaged."""
        try:
            yield
        except MoulinError:
            raise
        except FileNotFoundError as error:
            raise NotFound(f"{self.name} does not exist.") from error
        except MemoryError as error:
            raise Unavailable(f"There is not enough memory to read {self.name}: read fewer columns or rows.") from error
        except NotImplementedError as error:
            if self._own:
                raise self._damaged(str(error)) from error
            raise Unsupported(f"{self.name} uses a part of Parquet that cannot be read here: {error}.") from error
        except OSError as error:
            if error.errno is not None:
                raise Unavailable(f"{self.name} cannot be read: {error}.") from error
            raise self._damaged(str(error)) from error
        except (pa.ArrowException, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, reason: str) -> Corrupt:
        return Corrupt(f"{self.name} is damaged: {' '.join(reason.split())[:200].rstrip('.')}. {RESTORE}")


def _stretches(ranges: Sequence[_Range]) -> list[range]:
    """The positions of the ranges, neighbours joined."""
    stretches: list[range] = []
    for one in ranges:
        if stretches and stretches[-1].stop == one.start:
            stretches[-1] = range(stretches[-1].start, one.stop)
        else:
            stretches.append(range(one.start, one.stop))
    return stretches


def _positions(stretches: Sequence[range]) -> Integers:
    return np.concatenate(
        [np.empty(0, np.int64), *(np.arange(stretch.start, stretch.stop, dtype=np.int64) for stretch in stretches)]
    )


def _kept(deleted: BitMap64, stretches: Sequence[range]) -> pa.Array | None:
    masks = [keep_mask(deleted, stretch.start, len(stretch)) for stretch in stretches]
    if all(mask is None for mask in masks):
        return None
    every = [
        np.ones(len(stretch), np.bool_) if mask is None else mask
        for mask, stretch in zip(masks, stretches, strict=True)
    ]
    return pa.array(np.concatenate(every))


def _batches(table: pa.Table, rows: int) -> Iterator[pa.RecordBatch]:
    if table.num_columns:
        yield from table.to_batches(max_chunksize=rows)
        return
    for start in range(0, table.num_rows, rows):
        yield pa.record_batch({"": pa.nulls(min(rows, table.num_rows - start))}).select([])


def _nothing(rows: int) -> pa.Table:
    """Rows without columns."""
    return pa.table({"": pa.nulls(rows)}).select([])


__all__ = ["BATCH_ROWS", "POSITION", "ReadOptions", "SegmentReader"]
