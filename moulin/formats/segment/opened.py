"""The decoded footer of a file, shared by its readers."""

# Decisions: docs/decisions/0310, docs/decisions/0380

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from moulin.errors import Corrupt
from moulin.formats.segment.footer import (
    LEVEL_KEY,
    RESTORE,
    FooterColumn,
    GroupFacts,
    decode_footer,
    footer_columns,
    read_footer_bytes,
)
from moulin.formats.segment.foreign import adopted_footer
from moulin.formats.segment.index_checksums import IndexChecksums
from moulin.formats.segment.page_bounds import Bounds
from moulin.formats.segment.page_index import FooterMap, Pages
from moulin.formats.segment.row_mapping import RowMapping, Stored, numbered
from moulin.model.columns.arrays import Integers
from moulin.model.facts import SegmentFacts
from moulin.model.schema.arrow import Leaf, leaves
from moulin.model.schema.values import IcebergType, Schema

_SCHEMAS = 8  # a file is rarely read with more of them at a time


class OpenedFile:
    """The footer of a Parquet file. Raises Corrupt, naming the file, when it is damaged. Thread-safe.

    A footer whose checksum is right is decoded when it is asked for: `map` needs only its bytes. `like` is a file that
    may have the same columns. An adopted file needs its `facts`: they say how it is read.
    """

    def __init__(
        self, source: pa.NativeFile, name: str, *, like: OpenedFile | None = None, facts: SegmentFacts | None = None
    ) -> None:
        self._name, self._like = name, like
        self._footer, self.is_sealed = read_segment_footer(source, name, facts)
        adopted = None if facts is None else facts.adopted
        self._constants = {} if adopted is None else dict(adopted.constants)
        self.pages: dict[tuple[int, int], Pages | None] = {}
        self.bodies: dict[tuple[int, int], Integers] = {}  # of pages that were searched, see page_search.py
        self.bounds: dict[tuple[int, int, IcebergType], Bounds | None] = {}
        self.filters: set[tuple[int, int]] = set()  # row group and leaf of bloom filters whose checksums were right
        self.verified: set[tuple[int, int]] = set()  # row group and leaf of chunks whose checksums were right
        self._schemas: dict[int, _WithSchema] = {}
        if not self.is_sealed:
            _ = self.leaves

    @cached_property
    def metadata(self) -> pq.FileMetaData:
        return decode_footer(self._footer, self._name, is_sealed=self.is_sealed)

    @cached_property
    def own(self) -> bool:
        """Whether it is a segment that Moulin wrote."""
        return LEVEL_KEY.encode() in (self.metadata.metadata or {})

    @cached_property
    def arrow(self) -> pa.Schema:
        nothing = pa.BufferReader(b"")  # the footer is given
        file = pq.ParquetFile(
            nothing, metadata=self.metadata, arrow_extensions_enabled=True, coerce_int96_timestamp_unit="us"
        )
        return file.schema_arrow

    @cached_property
    def leaves(self) -> Sequence[Leaf]:
        found = leaves(self.arrow)
        if sum(self.group_rows) != self.rows or len(found) != self.metadata.num_columns:
            raise Corrupt(f"{self._name} is damaged: its footer contradicts itself. {RESTORE}")
        return found

    @cached_property
    def _stored(self) -> Mapping[int, Stored]:
        return numbered(self.arrow)

    @property
    def rows(self) -> int:
        return int(self.metadata.num_rows)

    @cached_property
    def group_rows(self) -> tuple[int, ...]:
        groups = range(self.metadata.num_row_groups)
        return tuple(self.metadata.row_group(group).num_rows for group in groups)

    @cached_property
    def group_starts(self) -> tuple[int, ...]:
        return tuple(accumulate(self.group_rows, initial=0))[:-1]

    @property
    def end_size(self) -> int:
        """Bytes of the footer, with its length and Parquet's mark behind it."""
        return len(self._footer) + 8

    @property
    def nbytes(self) -> int:
        """About what it takes in memory."""
        return 4096 + 24 * len(self._footer)

    @cached_property
    def map(self) -> FooterMap:
        like, self._like = self._like, None
        return FooterMap(self._footer, None if like is None else like.map)

    @cached_property
    def checksums(self) -> IndexChecksums:
        """Those of page indexes and bloom filters."""
        entries = (self.metadata.metadata or {}) if self.own else {}
        return IndexChecksums(entries, len(self.group_rows), len(self.leaves))

    def mapping(self, schema: Schema, columns: tuple[str, ...]) -> RowMapping:
        """How rows of the file become those of `schema`."""
        found = self._with(schema)
        if columns not in found.mappings:
            found.mappings[columns] = RowMapping(
                self.arrow, schema, columns, name=self._name, constants=self._constants, stored=self._stored
            )
        return found.mappings[columns]

    def group_facts(self, schema: Schema, group: int) -> Mapping[int, Any]:
        """Facts of a row group by field id."""
        found = self._with(schema)
        if group not in found.facts:
            found.facts[group] = GroupFacts(self.columns(schema), self.metadata.row_group(group))
        return found.facts[group]

    def columns(self, schema: Schema) -> Mapping[int, FooterColumn]:
        """The leaf columns that the file shares with `schema`, by field id."""
        found = self._with(schema)
        if found.columns is None:
            found.columns = footer_columns(self.metadata, schema)
        return found.columns

    def _with(self, schema: Schema) -> _WithSchema:
        found = self._schemas.get(id(schema))
        if found is None:
            if len(self._schemas) >= _SCHEMAS:
                self._schemas.clear()
            found = self._schemas[id(schema)] = _WithSchema(schema)
        return found


def read_segment_footer(source: pa.NativeFile, name: str, facts: SegmentFacts | None = None) -> tuple[bytes, bool]:
    """The footer of a segment and whether it is sealed; that of an adopted file with the field ids of its table.

    For a segment with column files, set by the code that opened them together.
    """
    footer, is_sealed = read_footer_bytes(source, name)
    if facts is None or facts.adopted is None or facts.files:
        return footer, is_sealed
    return adopted_footer(footer, facts, facts.adopted), False


class _WithSchema:
    """What follows from a file and a schema, which it keeps alive: it is known by its identity."""

    __slots__ = ("columns", "facts", "mappings", "schema")

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.columns: dict[int, FooterColumn] | None = None
        self.mappings: dict[tuple[str, ...], RowMapping] = {}
        self.facts: dict[int, GroupFacts] = {}


__all__ = ["OpenedFile", "read_segment_footer"]
