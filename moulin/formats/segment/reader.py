"""Reads segments, and Parquet files of other engines that carry field ids. Layout: docs/formats/segment.md."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TypeVar, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from moulin.errors import Closed, Corrupt, InvalidInput, MoulinError, NotFound, Unavailable, Unsupported
from moulin.formats.segment.decoder import Decoder
from moulin.formats.segment.footer import RESTORE
from moulin.formats.segment.opened import OpenedFile
from moulin.formats.segment.options import (
    Options,
    Range,
    ReadOptions,
    bare_rows,
    cut_batches,
    kept_mask,
    positions_of,
    stretches_of,
)
from moulin.formats.segment.row_mapping import RowMapping
from moulin.formats.segment.sieve import sift
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers
from moulin.model.facts import ColumnFacts, SegmentFacts
from moulin.model.predicate import Predicate
from moulin.model.predicate.evaluation import evaluate
from moulin.model.schema.arrow import (
    LAST_UPDATED_SEQUENCE_FIELD_ID,
    POSITION,
    ROW_ID_FIELD_ID,
    Leaf,
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
_SIFT_ROWS = 1 << 21  # of few columns, those of a filter
_FEW_COLUMNS = 4  # less than one of so many is read: then the bytes of these columns count, not those of the group

_T = TypeVar("_T")
_ROW_ID_FIELD, _SEQUENCE_FIELD = lineage_fields()
_POSITION_FIELD = pa.field(POSITION, pa.int64(), nullable=False)


class SegmentReader:
    """One file, read with `schema` by field id; `columns` names the top-level columns to give, in order (None: all).

    `source` is a path or a random-access file, which `close` closes. `name` stands for the file in messages. `facts`
    are those of the segment, which an adopted one is read by. With `verify`, the checksum of every page that is read
    is checked, where it has one; the footer's always is. Damage raises Corrupt. A reader belongs to one thread.
    `opened` is what another reader of the same file had as its `opened`; with `trust`, pages that this other one has
    checked are not checked again.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | pa.NativeFile,
        schema: Schema,
        *,
        columns: Sequence[str] | None = None,
        name: str | None = None,
        facts: SegmentFacts | None = None,
        verify: bool = True,
        opened: OpenedFile | None = None,
        trust: bool = False,
    ) -> None:
        path = os.fspath(source) if isinstance(source, str | os.PathLike) else None
        self.name = name or (facts.path if facts is not None else path) or "the segment"
        self._schema = schema
        self._columns = tuple(field.name for field in schema.fields) if columns is None else tuple(columns)
        self._verify = verify
        self._closed = False
        self._own = False
        with self._reading():
            self._source: pa.NativeFile = source if path is None else pa.OSFile(path)
            self.opened = opened or OpenedFile(self._source, self.name, facts=facts)
        self._own = self.opened.own
        self._decoder = Decoder(self._source, self.opened, verify=verify, trust=trust)
        self._leaves, self._metadata = self.opened.leaves, self.opened.metadata
        self.rows, self.group_rows, self.group_starts = (
            self.opened.rows,
            self.opened.group_rows,
            self.opened.group_starts,
        )
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
        read = self._options(options)
        tables = [self._read(ranges, read) for ranges in self._bundles(self._ranges(read), read)] or [
            self._read([], read)
        ]
        if tables[0].num_columns:
            return pa.concat_tables(tables)
        return bare_rows(sum(table.num_rows for table in tables))

    def batches(self, *, batch_rows: int = BATCH_ROWS, **options: Unpack[ReadOptions]) -> Iterator[pa.RecordBatch]:
        """The rows that `options` choose, in batches of at most `batch_rows`; few row groups are held at a time."""
        read = self._options(options)
        for ranges in self._bundles(self._ranges(read), read):
            yield from cut_batches(self._read(ranges, read), batch_rows)

    def pieces(self, piece_bytes: int, **options: Unpack[ReadOptions]) -> Iterator[pa.Table]:
        """The rows that `options` choose, in pieces of about `piece_bytes` decoded; never a whole row group is decoded.

        What is held of the file is encoded but for one piece, however well it compresses. Pieces may be empty.
        """
        read = Options(**options).plain
        wanted = _FIRST_PIECE_ROWS
        for one in self._ranges(read):
            at = one.start
            while at < one.stop:
                rows = wanted
                for raw, indices in self._raw_pieces(Range(one.group, at, one.stop), rows, read):
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

    def _options(self, options: ReadOptions) -> Options:
        """With a predicate or positions only where the file is ours: the footers of others have no checksum."""
        read = Options(**options)
        if self._own and read.by_pages:
            return read if read.predicate is None or not read.predicate.is_true else replace(read, predicate=None)
        if read.positions is not None:
            read = replace(read, row_groups=self._groups_of(read.positions))
        return read.plain

    def _groups_of(self, positions: Integers) -> list[int]:
        """The row groups that hold some of these positions."""
        counts = np.diff(np.searchsorted(positions, np.asarray([*self.group_starts, self.rows])))
        return [int(group) for group in np.flatnonzero(counts)]

    def _ranges(self, read: Options) -> list[Range]:
        groups: Sequence[int] = range(len(self.group_rows))
        if read.row_groups is not None:
            groups = sorted(set(read.row_groups))
        elif read.positions is not None:
            groups = self._groups_of(read.positions)
        if any(not 0 <= group < len(self.group_rows) for group in groups):
            raise InvalidInput(f"{self.name} has {len(self.group_rows)} row groups; {list(groups)} are not all there.")
        end = self.rows if read.stop is None else read.stop
        keep_group = read.keep_group if read.predicate is None else read.predicate.may_match
        found = []
        for group in groups:
            first, rows = self.group_starts[group], self.group_rows[group]
            start, stop = max(first, read.start), min(first + rows, end)
            if start < stop and (keep_group is None or keep_group(self._group_facts(group), rows)):
                found.append(Range(group, start, stop))
        return found

    def groups(self) -> Iterator[tuple[int, int, Mapping[int, ColumnFacts]]]:
        """Of each row group its first row, its rows, and its facts by field id."""
        for group, (start, rows) in enumerate(zip(self.group_starts, self.group_rows, strict=True)):
            yield start, rows, self._group_facts(group)

    def may_match(self, predicate: Predicate) -> list[tuple[int, int]]:
        """The row groups that may hold a match, each by its first row and the one behind its last."""
        keep = None if predicate.is_true else predicate.may_match
        return [(one.start, one.stop) for one in self._ranges(Options(keep_group=keep))]

    def bundles(self) -> Iterator[list[int]]:
        """The row groups, in lists of those that are best read with one call of `table`."""
        read = Options()
        for bundle in self._bundles(self._ranges(read), read):
            yield [one.group for one in bundle]

    def _bundles(self, ranges: Sequence[Range], read: Options) -> Iterator[list[Range]]:
        """The ranges, cut into lists to decode together."""
        bundle: list[Range] = []
        rows = size = 0
        first = None if read.predicate is None else self._mapping(read.predicate.terms[0].columns).leaves
        most = _DECODE_ROWS if first is None else _SIFT_ROWS
        if first is None and len(self._columns) < self._metadata.num_columns // _FEW_COLUMNS:
            first = tuple(self._stored_leaves(read))
        for one in ranges:
            bundle.append(one)
            rows += self.group_rows[one.group]
            group = self._metadata.row_group(one.group)
            size += group.total_byte_size if first is None else self._size(group, first)
            if rows >= most or size >= _DECODE_BYTES:
                yield bundle
                bundle, rows, size = [], 0, 0
        if bundle:
            yield bundle

    @staticmethod
    def _size(group: pq.RowGroupMetaData, leaves: Sequence[int]) -> int:
        return sum(group.column(leaf).total_uncompressed_size for leaf in leaves)

    def _group_facts(self, group: int) -> Mapping[int, ColumnFacts]:
        return self.opened.group_facts(self._schema, group)

    def _read(self, ranges: Sequence[Range], read: Options) -> pa.Table:
        by_pages = self._own and read.by_pages
        if by_pages and (read.predicate is not None or read.positions is not None):
            return self._read_sifted(ranges, read)
        if by_pages and read.expression is None and self._few(ranges):
            return self._read_sifted(ranges, replace(read, positions=positions_of(stretches_of(ranges))))
        stored = self._stored_leaves(read)
        with self._decoding() as decoder:
            raw = decoder.ranges(ranges, stored, use_threads=read.use_threads, wide=read.by_pages)
        return self._finish(raw, stored, stretches_of(ranges), read)

    def _read_sifted(self, ranges: Sequence[Range], read: Options) -> pa.Table:
        """The rows that match: columns of the predicate first, then the others of these rows alone."""
        terms = () if read.predicate is None else read.predicate.terms
        positions = read.positions
        if read.predicate is not None and positions is None:
            with self._decoding() as decoder:
                ranges, positions = decoder.candidates.of(read.predicate.condition, self._schema, ranges)
        if not ranges:
            return self._nothing(read)
        if positions is not None:
            spans = [positions[slice(*np.searchsorted(positions, [r.start, r.stop]))] for r in ranges]
            positions = np.concatenate([np.empty(0, np.int64), *spans])
        found = self._evaluated(
            lambda: sift(self, terms, ranges, positions=positions, deleted=read.deleted, most=read.most),
            "" if read.predicate is None else read.predicate.describe(),
        )
        names = tuple(name for name in self._columns if name not in found.columns)
        stored = self._leaves_of(names, read)
        with self._decoding() as decoder:
            raw = decoder.at(found.positions, stored)
        table = self._complete(raw, stored, names, found.positions, read)
        columns = {**found.columns, **dict(zip(table.column_names, table.columns, strict=True))}
        if not (wanted := [*self._columns, *table.column_names[len(names) :]]):
            return bare_rows(len(found.positions))
        fields = [*self._mapping(self._columns).schema, *list(table.schema)[len(names) :]]
        return pa.Table.from_arrays([columns[name] for name in wanted], schema=pa.schema(fields))

    def _nothing(self, read: Options) -> pa.Table:
        """No rows."""
        added = [_ROW_ID_FIELD] if read.row_id else []
        added += [_SEQUENCE_FIELD] if read.sequence else []
        added += [_POSITION_FIELD] if read.position else []
        return pa.schema([*self._mapping(self._columns).schema, *added]).empty_table()

    def _few(self, ranges: Sequence[Range]) -> bool:
        """Whether these are less than half of the rows of their row groups."""
        return 2 * sum(one.stop - one.start for one in ranges) < sum(self.group_rows[one.group] for one in ranges)

    def in_ranges(self, ranges: Sequence[Range], names: Sequence[str]) -> pa.Table:
        """All rows of the ranges, of some columns."""
        mapping = self._mapping(tuple(names))
        if self._few(ranges):
            return self.at_positions(positions_of(stretches_of(ranges)), names)
        with self._decoding() as decoder:
            raw = decoder.ranges(ranges, mapping.leaves)
        return mapping.apply(raw)

    def at_positions(self, positions: Integers, names: Sequence[str]) -> pa.Table:
        """The rows at these positions, which ascend, of some columns."""
        mapping = self._mapping(tuple(names))
        with self._decoding() as decoder:
            raw = decoder.at(positions, mapping.leaves)
        return mapping.apply(raw)

    def coded(self, ranges: Sequence[Range], name: str) -> pa.ChunkedArray | None:
        """A column of text as it is stored, if that is by dictionaries, and if the ranges are whole row groups."""
        mapping, groups = self._mapping((name,)), [one.group for one in ranges]
        with self._decoding() as decoder:
            if not self._whole(ranges) or not mapping.leaves or not decoder.is_coded(mapping.leaves, groups):
                return None
            found = decoder.coded(ranges, mapping.leaves[0])
        return found if found.type.value_type == mapping.schema.field(0).type else None

    def containing(self, ranges: Sequence[Range], name: str, text: bytes) -> Integers | None:
        """Positions in the ranges, among which are all those of rows whose column `name` has these bytes in it; None if
        they are many, or not known without decoding the column."""
        leaves = self._mapping((name,)).leaves
        if len(leaves) != 1 or not pt.is_string(self._leaves[leaves[0]].type) or not self._whole(ranges):
            return None
        with self._decoding() as decoder:
            return decoder.containing([one.group for one in ranges], leaves[0], text)

    def _whole(self, ranges: Sequence[Range]) -> bool:
        """Whether the ranges are whole row groups."""
        return all(one.stop - one.start == self.group_rows[one.group] for one in ranges)

    def _stored_leaves(self, read: Options) -> list[int]:
        """The leaf columns to decode."""
        return self._leaves_of((*self._columns, *self._extra(read)), read)

    def _leaves_of(self, names: tuple[str, ...], read: Options) -> list[int]:
        """The leaves of some columns, and those of lineage that is asked for."""
        lineage = [self._row_id_leaf] if read.row_id else []
        lineage += [self._sequence_leaf] if read.sequence else []
        return sorted({*self._mapping(names).leaves, *(leaf.index for leaf in lineage if leaf is not None)})

    def _extra(self, read: Options) -> list[str]:
        """Columns that only the filter needs."""
        if read.expression is None:
            return []
        return [name for name in read.extra_columns if name not in self._columns]

    def _finish(self, raw: pa.Table, stored: Sequence[int], stretches: Sequence[range], read: Options) -> pa.Table:
        """The rows to give, from leaf columns as they are stored at the positions of `stretches`."""
        extra = self._extra(read)
        table = self._complete(raw, stored, (*self._columns, *extra), stretches, read)
        mask = self._mask(table, stretches, read)
        table = table.drop_columns(extra) if extra else table
        return table if mask is None else table.filter(mask)

    def _complete(
        self,
        raw: pa.Table,
        stored: Sequence[int],
        names: tuple[str, ...],
        rows: Sequence[range] | Integers,
        read: Options,
    ) -> pa.Table:
        """Columns of the schema, lineage and positions, from leaf columns as stored at the positions `rows`."""
        mapping = self._mapping(names)
        lineage = [(_ROW_ID_FIELD, self._row_id_leaf)] if read.row_id else []
        lineage += [(_SEQUENCE_FIELD, self._sequence_leaf)] if read.sequence else []
        index_of = {column: at for at, column in enumerate(sorted({self._leaves[leaf].column for leaf in stored}))}
        table = mapping.apply(raw.select(sorted({index_of[self._leaves[leaf].column] for leaf in mapping.leaves})))
        for field, leaf in lineage:
            column = None if leaf is None else raw.column(index_of[leaf.column]).cast(field.type)
            table = table.append_column(field, self._lineage(field, column, rows, read))
        if read.position:
            table = table.append_column(_POSITION_FIELD, pa.array(positions_of(rows)))
        return table

    @contextmanager
    def _decoding(self) -> Iterator[Decoder]:
        if self._closed:
            raise Closed(f"The reader of {self.name} is closed; open the file again.")
        with self._reading():
            yield self._decoder

    def _raw_pieces(self, one: Range, rows: int, read: Options) -> Iterator[tuple[pa.Table, list[int]]]:
        """The rows of a range, `rows` at a time, of the leaf columns to decode, and which these are."""
        stored = self._stored_leaves(read)
        if not stored:
            yield bare_rows(one.stop - one.start), stored
            return
        at = self.group_starts[one.group]
        with self._decoding() as decoder:
            reader = decoder.file(verify=self._verify).reader
            batches = reader.iter_batches(rows, [one.group], column_indices=stored, use_threads=False)
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
        self, field: pa.Field, stored: pa.ChunkedArray | None, rows: Sequence[range] | Integers, read: Options
    ) -> pa.Array | pa.ChunkedArray:
        """A lineage column: what is stored, and where nothing is, what follows from the numbers of the commit."""
        if stored is not None and not stored.null_count:
            return stored
        given = read.first_row_id if field is _ROW_ID_FIELD else read.sequence_number
        if given is None and len(rows):
            raise InvalidInput(f"{self.name} does not store {field.name} of every row: give the numbers of its commit.")
        given = given or 0
        if field is _ROW_ID_FIELD:
            derived = pa.array(positions_of(rows) + given)
        else:
            derived = pa.repeat(
                pa.scalar(given, pa.int64()), len(rows) if isinstance(rows, np.ndarray) else sum(map(len, rows))
            )
        return derived if stored is None else pc.coalesce(stored, derived)

    def _mask(self, table: pa.Table, stretches: Sequence[range], read: Options) -> pa.Array | pa.ChunkedArray | None:
        """True for the rows to give; None for all."""
        kept = None if read.deleted is None else kept_mask(read.deleted, stretches)
        if read.positions is not None:
            wanted = pa.array(np.isin(positions_of(stretches), read.positions))
            kept = wanted if kept is None else pc.and_(kept, wanted)
        if read.expression is None:
            return kept
        expression = read.expression
        found = self._evaluated(lambda: evaluate(expression, table), expression)
        if found.type != pa.bool_():
            raise InvalidInput(f"The filter {read.expression} is not true or false, but of Arrow type {found.type}.")
        return found if kept is None else pc.and_(found, kept)

    def _evaluated(self, run: Callable[[], _T], expression: object) -> _T:
        try:
            return run()
        except (pa.ArrowException, KeyError, TypeError) as error:
            raise InvalidInput(f"The filter {expression} cannot be used: {str(error).splitlines()[0]}.") from error

    def _mapping(self, columns: tuple[str, ...]) -> RowMapping:
        return self.opened.mapping(self._schema, columns)

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


__all__ = ["BATCH_ROWS", "POSITION", "ReadOptions", "SegmentReader"]
