"""The options of `format("moulin")`: table, version, and changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql.types import StructType

import moulin
from moulin.errors import InvalidInput, NotFound
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.names import did_you_mean
from moulin.pipeline.read.columns import spark_schema
from moulin.pipeline.write.source_write import WRITE_OPTIONS
from moulin.storage import paths
from moulin.storage.address import split_branch
from moulin.storage.store import open_store
from moulin.table.versions import to_nanos

NOW = "now"
_FEED_OPTIONS = ("changes_since", "changes_until", "changes_net", "max_versions_per_batch")
_STREAM_OPTIONS = ("query_id",)
_OPTIONS = (
    "lake",
    "storage",
    "version",
    "timestamp",
    "tag",
    "where",
    *_FEED_OPTIONS,
    *_STREAM_OPTIONS,
    *WRITE_OPTIONS,
    "path",
)
_AT = ("version", "timestamp", "tag")
_SPARK_OPTIONS = ("checkpointlocation", "queryname")  # what Spark passes on of its own, and pipelines
_STORAGE_PREFIX = "storage."


@dataclass(frozen=True, slots=True)
class SourceTable:
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
    def of(cls, options: Mapping[str, str]) -> SourceTable:
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
            raise InvalidInput(f"The option version must be the number of a version, not {version!r}.")
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
            folder = open_store(split_branch(self.lake)[0], create=False)
            if not folder.exists(paths.catalog_file()):
                raise NotFound(f"There is no lake at {self.lake}: create one with moulin.connect or `moulin init`.")
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


def source_to_write(options: Mapping[str, str]) -> SourceTable:
    """What the options of a writer say; refuses those that are for reading."""
    source = SourceTable.of(options)
    reading = (source.version, source.timestamp, source.where, FeedOptions.of(options))
    if any(option is not None for option in reading):
        raise InvalidInput("The options version, timestamp, where and changes_since are only for reading.")
    return source


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """Which changes to read: what the options say. `since` is None for "now"."""

    since: int | None
    until: int | None
    net: bool
    max_versions: int | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> FeedOptions | None:
        """Check the options of a reader; None when they ask for rows, and not for changes."""
        since = options.get("changes_since")
        if since is None:
            for name in _FEED_OPTIONS[1:]:
                if options.get(name) is not None:
                    raise InvalidInput(f"The option {name} needs changes_since, the version to start after.")
            return None
        if options.get("version") is not None or options.get("timestamp") is not None:
            raise InvalidInput("Changes are read with changes_since and changes_until, not with version or timestamp.")
        net = (options.get("changes_net") or "false").lower()
        if net not in ("true", "false"):
            raise InvalidInput(f"The option changes_net must be true or false, not {net!r}.")
        return cls(
            None if since.lower() == NOW else _number("changes_since", since),
            None if (until := options.get("changes_until")) is None else _number("changes_until", until),
            net == "true",
            None
            if (most := options.get("max_versions_per_batch")) is None
            else _number("max_versions_per_batch", most),
        )

    def state(self, lake: Lake, table: str) -> TableState:
        """The table at the end of the range, which must be kept."""
        opened = lake.table(table)
        if self.until is None:
            opened.settle()
        if self.since is None:
            return opened.state()
        return lake.catalog.state_until(opened.id, self.since, self.until)


def checked_columns(columns: StructType, state: TableState) -> tuple[str, ...]:
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
                f"not {column.dataType.simpleString()}: read it with that type and cast it."
            )
    return tuple(column.name for column in columns)


def _number(name: str, text: str) -> int:
    if not text.isdecimal() or (name == "max_versions_per_batch" and int(text) == 0):
        kind = "a number above zero" if name == "max_versions_per_batch" else "the number of a version"
        raise InvalidInput(f"The option {name} takes {kind}, not {text!r}.")
    return int(text)
