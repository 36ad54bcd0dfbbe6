"""Decodes leaf columns of a segment, as they are stored: whole row groups, or the rows at some positions.

Pages that a reader of the same file has decoded whole, with their checksums right, are not checked again if `trust`
says that the file lies on this machine: it is known by its times, so it has not changed since.
"""

# Decisions: docs/decisions/0310, docs/decisions/0151, docs/decisions/0361, docs/decisions/0600

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from moulin.formats.segment.candidates import Candidates
from moulin.formats.segment.opened import OpenedFile
from moulin.formats.segment.options import Range, bare_rows
from moulin.formats.segment.page_reader import PageReader, Rows, taken
from moulin.formats.segment.page_search import PageSearch
from moulin.formats.segment.wide_texts import open_parquet, read_texts
from moulin.model.columns.arrays import Integers

# Pages this close together are read at once.
_NEAR_LOCAL = 64 << 10
_NEAR_REMOTE = 512 << 10
_FEW_ROWS = 16  # of a row group: if there are more, each is decoded by itself, in memory that is used again
_DICTIONARY_BYTES = 128 << 10  # one that is larger may have been full, and then values follow that are not in it


class Decoder:
    """Errors are those of pyarrow, and ValueError for what contradicts itself. A decoder belongs to one thread."""

    def __init__(self, source: pa.NativeFile, opened: OpenedFile, *, verify: bool, trust: bool) -> None:
        self._source, self._opened, self._verify, self._trust = source, opened, verify, trust
        self._files: dict[tuple[bool, tuple[str, ...], bool], pq.ParquetFile] = {}
        near = _NEAR_LOCAL if isinstance(source, pa.OSFile | pa.BufferReader) else _NEAR_REMOTE
        self._pages = PageReader(opened, self._read, near=near, verify=verify, trust=trust)
        self._search = PageSearch(opened, self._read, verify=verify, trust=trust)
        self.candidates = Candidates(opened, self._read, near, trust=trust)

    def ranges(
        self, ranges: Sequence[Range], leaves: Sequence[int], *, use_threads: bool = False, wide: bool = True
    ) -> pa.Table:
        """The rows of the ranges, one after the other. Without `wide`, pyarrow decodes texts as it does by itself."""
        if not leaves:
            return bare_rows(sum(one.stop - one.start for one in ranges))
        table = self._groups([one.group for one in ranges], leaves, use_threads=use_threads, wide=wide)
        if sum(one.stop - one.start for one in ranges) == table.num_rows:
            return table
        pieces, at = [], 0
        for one in ranges:
            start = one.start - self._opened.group_starts[one.group]
            pieces.append(table.slice(at + start, one.stop - one.start))
            at += self._opened.group_rows[one.group]
        return pa.concat_tables(pieces)

    def at(self, positions: Integers, leaves: Sequence[int]) -> pa.Table:
        """The rows at these positions, which ascend: from pages of flat columns, where few pages have them, else from
        row groups."""
        if not leaves:
            return bare_rows(len(positions))
        edges = np.searchsorted(positions, np.asarray([*self._opened.group_starts, self._opened.rows]))
        groups = np.flatnonzero(np.diff(edges)).tolist()
        if not groups:
            return self._empty(leaves)
        rows = {g: positions[edges[g] : edges[g + 1]] - self._opened.group_starts[g] for g in groups}
        if len(positions) < _FEW_ROWS * len(groups):
            return self._rows_at(rows, leaves)
        return pa.concat_tables([self._rows_at({group: local}, leaves) for group, local in rows.items()])

    def _rows_at(self, rows: Rows, leaves: Sequence[int]) -> pa.Table:
        columns: dict[int, list[int]] = {}
        for leaf in leaves:
            columns.setdefault(self._opened.leaves[leaf].column, []).append(leaf)
        groups = list(rows)
        coded = [column for column, of in columns.items() if self.is_coded(of, groups)]
        flat = [(column, of[0]) for column, of in columns.items() if len(of) == 1]
        found = {column: plain(values) for column, values in self._pages.columns(rows, flat, coded).items()}
        left = [column for column in columns if column not in found]
        for as_codes in (True, False):
            if some := [column for column in left if (column in coded) is as_codes]:
                wanted = [leaf for column in some for leaf in columns[column]]
                parts = [taken(self._groups([group], wanted, coded=as_codes), at) for group, at in rows.items()]
                whole = pa.concat_tables(parts)
                found |= {column: plain(whole.column(at)) for at, column in enumerate(some)}
        names = [self._opened.arrow.field(column).name for column in columns]
        return pa.table([found[column] for column in columns], names=names)

    def is_coded(self, leaves: Sequence[int], groups: Sequence[int]) -> bool:
        """Whether a column is flat text that row groups store as a small dictionary and indexes."""
        leaf = self._opened.leaves[leaves[0]]
        if len(leaves) != 1 or not (pt.is_string(leaf.type) or pt.is_binary(leaf.type)) or not self._opened.own:
            return False
        if len(self._opened.map.columns[leaf.column]) != 1:
            return False
        chunks = (self._opened.map.chunk(group, leaf.index) for group in groups)
        return all(0 < chunk.data_start - chunk.start <= _DICTIONARY_BYTES for chunk in chunks)

    def containing(self, groups: Sequence[int], leaf: int, text: bytes) -> Integers | None:
        """Positions in row groups, among which are all those of values of a flat column that have `text` in them; None
        if these are not to be had without decoding, or are many."""
        opened = self._opened
        if not opened.own or len(opened.map.columns[opened.leaves[leaf].column]) != 1:
            return None
        found = [np.empty(0, np.int64)]
        for group in groups:
            rows = self._search.rows(group, leaf, text) if self._search.can_search(group, leaf) else None
            if rows is None:
                return None
            found.append(rows + opened.group_starts[group])
        return np.concatenate(found)

    def coded(self, ranges: Sequence[Range], leaf: int) -> pa.ChunkedArray:
        """A column that `is_coded`, of whole row groups, as dictionaries and indexes."""
        return self._groups([one.group for one in ranges], [leaf], coded=True).column(0)

    def file(self, *, verify: bool, dictionaries: tuple[str, ...] = (), wide: bool = False) -> pq.ParquetFile:
        """The file as pyarrow opens it."""
        key = (verify, dictionaries, wide)
        if key not in self._files:
            self._files[key] = open_parquet(
                self._source, metadata=self._opened.metadata, verify=verify, dictionaries=dictionaries, wide=wide
            )
        return self._files[key]

    def _groups(
        self,
        groups: Sequence[int],
        leaves: Sequence[int],
        *,
        coded: bool = False,
        use_threads: bool = False,
        wide: bool = True,
    ) -> pa.Table:
        """All rows of row groups."""
        parts = {(group, leaf) for group in groups for leaf in leaves}
        known = self._trust and parts <= self._opened.verified
        dictionaries = tuple(self._opened.leaves[leaf].path for leaf in leaves) if coded else ()

        def read(wide: bool) -> pa.Table:
            reader = self.file(verify=self._verify and not known, dictionaries=dictionaries, wide=wide).reader
            return reader.read_row_groups(list(groups), column_indices=list(leaves), use_threads=use_threads)

        columns = {self._opened.leaves[leaf].column for leaf in leaves}
        kinds = [self._opened.arrow.field(column).type for column in columns]
        table = read_texts(kinds, read) if wide and not coded else read(False)
        if table.num_rows != sum(self._opened.group_rows[group] for group in groups):
            raise ValueError(f"row groups {groups} hold {table.num_rows} rows, which is not what its footer says")
        if self._verify and self._trust:
            self._opened.verified.update(parts)
        return table.replace_schema_metadata(None)

    def _empty(self, leaves: Sequence[int]) -> pa.Table:
        file = self.file(verify=self._verify)
        return file.reader.read_row_groups([], column_indices=list(leaves)).replace_schema_metadata(None)

    def _read(self, start: int, length: int) -> bytes:
        data: bytes = self._source.read_at(length, start)
        if len(data) != length:
            raise ValueError(f"it ends before byte {start + length}")
        return data


def plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values without the dictionary that they may be stored with."""
    return values.cast(values.type.value_type) if pt.is_dictionary(values.type) else values


__all__ = ["Decoder", "plain"]
