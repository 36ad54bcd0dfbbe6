"""The catalog's facts of a data file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

MAX_LEVEL: Final = 100
"""The highest level of a segment that a commit or a merge task may name."""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """Facts of one leaf column, keyed by its field id.

    `lower` and `upper` are Iceberg single-value bytes (Appendix D of its specification), or None when unknown or when
    every value is null or NaN. They may be truncated: lower <= every value <= upper always holds. NaN is never a bound.
    """

    field_id: int
    values: int
    nulls: int
    nans: int | None = None
    size: int = 0
    lower: bytes | None = None
    upper: bytes | None = None


@dataclass(frozen=True, slots=True)
class AdoptedFile:
    """How to read an adopted file.

    `owner` is the table that adopted it. `field_ids` has one number for each element of the file's Parquet schema, in
    their order, 0 for those that are not read. `constants` are columns that have one value in all rows, as field ids
    and Iceberg single-value bytes. `modified_ns` and `etag` are what the store said of the file. `hidden_keys` are
    offsets in its footer of keys that readers must not know; `other_ids` says that it has field ids of its own, which
    are not those of `field_ids`. `location` is its address as an engine spelled it, empty for that of its path.

    An `unread` file is known from an engine's manifest alone: readers take its own field ids, and nobody has compared
    the facts of its segment with it.
    """

    owner: UUID
    field_ids: tuple[int, ...]
    constants: tuple[tuple[int, bytes | None], ...] = ()
    modified_ns: int = 0
    etag: str = ""
    hidden_keys: tuple[int, ...] = ()
    other_ids: bool = False
    location: str = ""
    unread: bool = False


@dataclass(frozen=True, slots=True)
class ColumnFile:
    """Columns of a segment that lie in a file of their own, row for row beside the segment's own file.

    `fields` are the ids of the top-level columns in it. It has the row groups of the segment's file.
    """

    segment: int
    path: str
    size: int
    sha256: bytes
    fields: tuple[int, ...]
    columns: tuple[ColumnFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """One immutable data file, as its writer describes it.

    `path` is relative to the lake's storage root. `partition` holds the partition tuple as Iceberg single-value bytes
    (None for null), in the order of the spec's fields. `time_min`/`time_max` are the event-time range in Unix
    nanoseconds, None when the table has no event time or every value is null. `has_lineage` says that the file stores
    `_row_id` and `_last_updated_sequence_number`; otherwise they are derived from the first row id and sequence number
    given at commit. `seq_min`/`seq_max` are the lowest and highest stored `_last_updated_sequence_number`, None without
    lineage. `key_min`/`key_max` are the lowest and highest encoded key of a keyed table, `region` is the one that wrote
    the file, and `index_size` the bytes of its key index (0: there is none). `inline` holds the whole file of
    an inline segment: it is kept in the catalog, and is in storage only once an engine has asked for it.

    `files` are the column files that a version sees the segment with. A field id lies in one file; `columns` has the
    facts of all of them. `adopted` says how to read a file that was adopted; then `sha256` is that of its footer.
    """

    number: int
    path: str
    rows: int
    size: int
    level: int
    schema_id: int
    spec_id: int
    partition: tuple[bytes | None, ...]
    sha256: bytes
    columns: tuple[ColumnFacts, ...] = ()
    time_min: int | None = None
    time_max: int | None = None
    has_lineage: bool = False
    seq_min: int | None = None
    seq_max: int | None = None
    key_min: bytes | None = None
    key_max: bytes | None = None
    sort_order_id: int = 0
    split_offsets: tuple[int, ...] = field(default=())
    region: int = 0
    index_size: int = 0
    inline: bytes | None = field(default=None, repr=False)
    files: tuple[ColumnFile, ...] = ()
    adopted: AdoptedFile | None = None

    def file_of(self, field_id: int) -> ColumnFile | None:
        """The column file that has this top-level column; None: it lies in the segment's own file, or nowhere."""
        return next((file for file in self.files if field_id in file.fields), None)

    @property
    def is_in_order(self) -> bool:
        """Whether rows lie in the order of a sort order: of the key in keyed tables, unless the file was adopted."""
        return self.sort_order_id != 0

    @property
    def stored_size(self) -> int:
        """Bytes of all files that hold rows."""
        return self.size + sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class VectorFacts:
    """One stored deletion vector: a blob in a Puffin file. Covers every deleted position of its segment."""

    id: int
    segment: int
    path: str
    offset: int
    length: int
    cardinality: int


@dataclass(frozen=True, slots=True)
class LiveSegment:
    """A segment as one version sees it: its facts, the numbers given at its commit, and its deletion vector then.

    `columns_id` names the set of its column files; 0: it has none.
    """

    facts: SegmentFacts
    first_row_id: int
    sequence: int
    added_version: int
    vector: VectorFacts | None = None
    columns_id: int = 0

    @property
    def live_rows(self) -> int:
        return self.facts.rows - (self.vector.cardinality if self.vector else 0)
