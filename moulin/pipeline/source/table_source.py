"""A table as `format("moulin")` reads and writes it in batches: which one, its reader and its writer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

import moulin
from moulin.errors import InvalidInput, NotFound
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.names import did_you_mean
from moulin.model.where import parse_where
from moulin.pipeline.read.columns import spark_schema
from moulin.pipeline.read.segment_scan import SegmentScan
from moulin.pipeline.source.feed_source import (
    FEED_OPTIONS,
    FeedOptions,
)
from moulin.pipeline.source.stream_writer import STREAM_OPTIONS
from moulin.pipeline.write.source_write import WRITE_OPTIONS, Part, SourceWrite, WriteOptions
from moulin.pipeline.write.writer import current_task
from moulin.storage import paths
from moulin.storage.store import open_store
from moulin.table.find.search import narrow
from moulin.table.read.scan import plan_segments
from moulin.table.versions import to_nanos

_OPTIONS = (
    "lake",
    "storage",
    "version",
    "timestamp",
    "tag",
    "where",
    *FEED_OPTIONS,
    *STREAM_OPTIONS,
    *WRITE_OPTIONS,
    "path",
)
_AT = ("version", "timestamp", "tag")
_SPARK_OPTIONS = ("checkpointlocation", "queryname")  # what Spark passes on of its own, and pipelines
_STORAGE_PREFIX = "storage."
_PARTITION_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """Which table, in which lake, at which version: what the options say. Sent to tasks and to the commit."""

    lake: str
    table: str
    storage: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict)
    version: int | None = None
    timestamp: str | None = None
    tag: str | None = None
    where: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Place:
        """Check the options of a reader or writer."""
        for name in options:
            if name not in (*_OPTIONS, *_SPARK_OPTIONS) and not name.startswith(_STORAGE_PREFIX):
                raise InvalidInput(
                    f'Unknown option {name!r} for format("moulin").{did_you_mean(name, _OPTIONS)} Known are '
                    f"{', '.join(_OPTIONS[:-1])}, and {_STORAGE_PREFIX}<name> for the object store."
                )
        if not options.get("lake"):
            raise InvalidInput('format("moulin") needs .option("lake", <folder or address of the lake>).')
        if not options.get("path"):
            raise InvalidInput('format("moulin") needs a table: .load("database.table") or .save("database.table").')
        version = options.get("version")
        if version is not None and not version.isdecimal():
            raise InvalidInput(f"The option version takes the number of a version, not {version!r}.")
        if sum(options.get(name) is not None for name in _AT) > 1:
            raise InvalidInput(f"Give one of the options {', '.join(_AT)}, not several.")
        return cls(
            options["lake"],
            options["path"],
            options.get("storage"),
            {k.removeprefix(_STORAGE_PREFIX): v for k, v in options.items() if k.startswith(_STORAGE_PREFIX)},
            None if version is None else int(version),
            options.get("timestamp"),
            options.get("tag"),
            options.get("where"),
        )

    @contextmanager
    def open(self) -> Iterator[Lake]:
        """The lake, which must exist: a mistyped address must not make a new one."""
        if "://" not in self.lake or self.lake.startswith("file:"):
            folder = open_store(self.lake, create=False)
            if not folder.exists(paths.catalog_file()):
                raise NotFound(f"There is no lake at {self.lake}: make one with moulin.connect or `moulin init`.")
        options = self.storage_options or None
        with moulin.connect(self.lake, storage=self.storage, storage_options=options) as lake:
            yield lake

    def state(self, lake: Lake) -> TableState:
        """The table at the version that the options ask for."""
        version = self.version
        if self.tag is not None:
            return lake.table(self.table).at(tag=self.tag).state
        if self.timestamp is not None:
            version = lake.catalog.version_at(to_nanos(self.timestamp))
        table = lake.table(self.table)
        if version is None:
            table.settle()
        return table.state(version)


def place_to_write(options: Mapping[str, str]) -> Place:
    """What the options of a writer say; refuses those that are for reading."""
    place = Place.of(options)
    reading = (place.version, place.timestamp, place.where, FeedOptions.of(options))
    if any(option is not None for option in reading):
        raise InvalidInput(
            "The options version, timestamp, where and changes_since are for reading: a write makes a new version."
        )
    return place


@dataclass
class _Segments(InputPartition):
    """What one task reads."""

    segments: tuple[LiveSegment, ...]


class TableSourceReader(DataSourceReader):
    """Reads the segments that the option `where` leaves, in groups of some size.

    It takes no filters from Spark: Spark hands the filters of one scan to all scans of a query that read the same
    frame. See docs/decisions/0195-no-filters-for-the-source.md.
    """

    def __init__(self, place: Place, columns: StructType) -> None:
        with place.open() as lake:
            state = place.state(lake)
            self._store, self._schema, self._version = (lake.context.store, state.schema, state.version)
        self._predicate = parse_where(place.where, state.schema)
        self._place = place
        self._columns = _checked_columns(columns, state)

    def partitions(self) -> Sequence[InputPartition]:
        with self._place.open() as lake:
            state = lake.table(self._place.table).state(self._version)
            lake.catalog.pin(state.id, state.version)  # runs out by itself: nothing reports the end of the job
            planned = plan_segments(lake.catalog, state, self._predicate)
            found = narrow(lake.catalog, lake.context.secondary, state, self._predicate, planned).segments
        groups: list[list[LiveSegment]] = []
        size = _PARTITION_BYTES
        for segment in found:
            if size >= _PARTITION_BYTES:
                groups.append([])
                size = 0
            groups[-1].append(_slim(segment))
            size += segment.facts.size
        return [_Segments(tuple(group)) for group in groups] or [_Segments(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Segments)
        pa.set_cpu_count(1)
        scan = SegmentScan(self._store, self._schema, self._columns, self._predicate)
        return scan.batches(partition.segments)


@dataclass
class _Written(WriterCommitMessage):
    """What one task wrote."""

    parts: tuple[Part, ...]


class TableSourceWriter(DataSourceArrowWriter):
    """Every task writes level-0 segments; the commit makes one version of them.

    What was written for a commit that failed is left for clean-up: whether it failed before or after the catalog
    decided is not always known, so an abort removes nothing.
    """

    def __init__(self, place: Place, columns: StructType, overwrite: bool, options: WriteOptions) -> None:
        with place.open() as lake:
            self._write = SourceWrite.plan(lake, place.state(lake), columns, options, overwrite=overwrite)
        self._place = place

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _Written(self._write.write(current_task(), iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        parts = [part for message in messages if isinstance(message, _Written) for part in message.parts]
        with self._place.open() as lake:
            self._write.commit(lake, parts)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: see above."""


def _slim(segment: LiveSegment) -> LiveSegment:
    """Without the facts of columns, which tasks do not need."""
    return replace(segment, facts=replace(segment.facts, columns=()))


def _checked_columns(columns: StructType, state: TableState) -> tuple[str, ...]:
    """The names of the columns asked for; refuses those the table lacks, and types other than those it shows."""
    known = {column.name: column.dataType for column in spark_schema(state.schema)}
    for column in columns:
        if column.name not in known:
            raise InvalidInput(
                f"Table {state.full_name} has no column {column.name!r}.{did_you_mean(column.name, known)} "
                f"It has: {', '.join(known)}."
            )
        if column.dataType.simpleString() != known[column.name].simpleString():
            raise InvalidInput(
                f"Column {column.name} of {state.full_name} is {known[column.name].simpleString()} in Spark, "
                f"not {column.dataType.simpleString()}; read it so and cast it."
            )
    return tuple(column.name for column in columns)
