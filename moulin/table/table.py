"""Table: the front door to one table. Thin: each verb lives in its own module."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from moulin.errors import Closed, FailedPrecondition, InvalidInput, NotFound
from moulin.model.arrow import arrow_schema
from moulin.model.entities import CommitInfo, TableState
from moulin.model.merge_rules import MergeRules
from moulin.model.operations import (
    AlterSchema,
    Operation,
    Restore,
    SetPartitioning,
    SetProperties,
    SetSortOrder,
)
from moulin.model.refs import Ref, check_ref_name, refs_of, shown
from moulin.model.schema_change import (
    AddColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SchemaChange,
    SetNullable,
    WidenColumn,
)
from moulin.model.type_reader import to_type
from moulin.model.where import Where
from moulin.table import bulk
from moulin.table import index as indexing
from moulin.table.change import SettingChange, retried
from moulin.table.changes import Changes
from moulin.table.compaction import Compaction, compact
from moulin.table.context import Context
from moulin.table.index import IndexInfo
from moulin.table.key_scan import KeyScan, Pending
from moulin.table.keyed import KeyedTable, keyed_table
from moulin.table.properties import check_properties
from moulin.table.region import RegionWriter
from moulin.table.run_commit import is_frame, merge, source_schema
from moulin.table.scan import Scan
from moulin.table.snapshot import Snapshot
from moulin.table.stats import TableStats, table_stats
from moulin.table.writes import Outcome, prepare_append, prepare_delete, prepare_overwrite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


ToSpark = Callable[["Table", int | None], "DataFrame"]


class Table:
    """One table of a lake. Holds no state of its own but its id: every call sees the newest version.

    One that is `read_only` shows the version it was opened at until `refresh`; `follow` makes the catalog look for
    newer ones, where it does not see them by itself.
    """

    def __init__(
        self,
        context: Context,
        table_id: UUID,
        *,
        read_only: bool = False,
        to_spark: ToSpark | None = None,
        follow: Callable[[], int] | None = None,
    ) -> None:
        self._context = context
        self.id = table_id
        self._read_only = read_only
        self._to_spark = to_spark
        self._closed = False
        self._follow = follow
        self._put: KeyedTable | RegionWriter | None = None  # what takes rows one by one, once it is known
        self._writes = False
        self._shown = context.catalog.table_by_id(table_id).version if read_only else None

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    # What it is

    @property
    def name(self) -> str:
        return self._state().full_name

    @property
    def version(self) -> int:
        """The last version that changed this table."""
        return self._state().head_version

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self._state().schema)

    @property
    def properties(self) -> Mapping[str, str]:
        return shown(self._state().properties)

    def state(self, version: int | None = None) -> TableState:
        """Everything the catalog knows of the table but its segments, at `version` or now."""
        return self._state(version)

    def stats(self) -> TableStats:
        """Levels, amplification, caches, stalls, regions and indexes; reads no file."""
        return table_stats(self._context, self._state())

    # Rows

    def append(self, data: object, *, request_id: str | None = None) -> Outcome:
        """Add rows: Arrow in any of its forms, a list of dicts, what exports an Arrow stream, or a Spark DataFrame.

        With a `request_id`, a second append of the same id does nothing and answers with the first one's version.
        """
        state = self._writable()
        if request_id is not None and (earlier := self._context.catalog.committed(request_id)):
            return Outcome(earlier.version)
        if (keyed := self._keyed()) is not None:
            return bulk.upsert(self._context, keyed, data, request_id)
        change = prepare_append(self._context, state, data)
        if not change.added:
            return Outcome(state.head_version)
        committed = self._context.committer.commit([change], request_id=request_id)
        return Outcome(committed.version, rows_added=sum(facts.rows for facts in change.added))

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Where = None,
        version: int | None = None,
        limit: int | None = None,
        *,
        start: Any = None,
        end: Any = None,
        prefix: Any = None,
        reverse: bool = False,
        ordered: bool = False,
    ) -> Scan:
        """Rows of the newest version, or of `version`; read when the result is asked for them.

        On a keyed table also what was put and is in no version yet. There, `start` (inclusive) and `end` (exclusive)
        are keys or their first columns, and `prefix` is the first columns of the keys wanted. Rows come in key order
        when one of them, `reverse` or `ordered` is given.
        """
        options = {"start": start, "end": end, "prefix": prefix, "reverse": reverse, "ordered": ordered}
        keyed = self._keyed() if version is None and self._shown is None else None
        if keyed is not None:
            view, pending = Pending.of(self._context, keyed)
            return KeyScan(self._context, view, pending, columns=columns, where=where, limit=limit, **options)
        snapshot = Snapshot(self._context, self._state(version))
        return snapshot.scan(columns, where, limit, **options)

    def backfill(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        source: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        batch_bytes: int | None = None,
        changed: str = "error",
        progress: Callable[[Any], None] | None = None,
    ) -> Any:
        """Load the Parquet, CSV or NDJSON files of a folder or object store on Spark, each file once.

        Files go in in the order of their paths, in batches of about `batch_bytes`, each of them one version; a keyed
        table is upserted into. What was loaded is remembered under the name `source`, by default the folder's address:
        a call that was killed goes on where it was, and later calls load what is new. A file that changed after it was
        loaded is an error, or left alone with `changed="skip"`. `progress` is told of each batch; the answer sums up.
        """
        self._writable()
        options = {"format": format, "source": source, "storage_options": storage_options, "changed": changed}
        more = {} if batch_bytes is None else {"batch_bytes": batch_bytes}
        return self._context.frames().backfill(self.id, os.fspath(path), progress=progress, **options, **more)

    def delete_where(self, where: Where) -> Outcome:
        """Delete the rows that match; no data is rewritten."""
        if self._writable() and (keyed := self._keyed()) is not None:
            return bulk.delete_where(self._context, keyed, where)

        def run() -> Outcome:
            state = self._writable()
            change, rows = prepare_delete(self._context, state, where)
            if rows == 0:
                return Outcome(state.head_version)
            return Outcome(self._context.committer.commit([change]).version, rows_deleted=rows)

        return retried(self._context.config.commit_attempts, run)

    def overwrite(self, data: object, where: Where = None) -> Outcome:
        """Replace all rows, or those that match, with the rows of `data`, in one version."""
        if self._writable() and (keyed := self._keyed()) is not None:
            return bulk.overwrite(self._context, keyed, data, where)
        added = prepare_append(self._context, self._writable(), data).added

        def run() -> Outcome:
            change, rows = prepare_overwrite(self._context, self._writable(), added, where)
            version = self._context.committer.commit([change]).version
            return Outcome(version, sum(facts.rows for facts in added), rows)

        return retried(self._context.config.commit_attempts, run)

    def merge(
        self,
        source: object,
        *,
        when_matched: str | None = "update",
        when_matched_set: Mapping[str, str] | None = None,
        when_matched_if: str | None = None,
        when_matched_delete_if: str | None = None,
        when_not_matched: str | None = "insert",
        when_not_matched_set: Mapping[str, str] | None = None,
        when_not_matched_if: str | None = None,
    ) -> Outcome:
        """Match the rows of `source` with the rows of a keyed table by key, and do what is said, in one version.

        `source` is a Spark DataFrame, Arrow in any of its forms, or a list of dicts, with the key's columns and each
        key once. A matched row is updated or deleted where `when_matched_if` holds ("source.ts > target.ts"): updated
        to the columns that the source has, or to what `when_matched_set` says ({"total": "source.x + target.total"});
        its other columns stay. Those for which `when_matched_delete_if` holds are deleted instead. Rows without a match
        are inserted where `when_not_matched_if` holds: the columns that the source has, or the key and what
        `when_not_matched_set` says; both name `source` alone.
        """
        state = self._writable()
        keyed = self._keyed_only()
        if is_frame(source):
            schema = self._context.frames().frame_schema(source)
        else:
            source, schema = source_schema(source)
        rules = MergeRules.of(
            state.schema,
            schema,
            when_matched,
            when_matched_set,
            when_matched_if,
            when_not_matched,
            when_matched_delete_if,
            when_not_matched_set,
            when_not_matched_if,
        )
        return merge(self._context, keyed, source, rules)

    # Rows by key

    def put(self, row: Mapping[str, Any]) -> None:
        """Insert a row, or replace the one with its key. Durable as `log_sync` says when it returns."""
        writer = self._put
        if writer is None:
            writer = self._put = self._writer().direct()
        writer.put(row)

    def put_batch(self, data: object) -> int:
        """Insert or replace rows: a list of dicts, or Arrow in any of its forms. Returns how many there were."""
        return self._writer().put_batch(data)

    def get(self, key: Any) -> dict[str, Any] | None:
        """The row of a key, or None. A key of several columns is a tuple."""
        if self._shown is not None:
            return Snapshot(self._context, self._state()).get(key)
        return self._keyed_only().get(key)

    def get_many(self, keys: Sequence[Any]) -> list[dict[str, Any] | None]:
        """The row of each key, or None, in the order of the keys."""
        if self._shown is not None:
            return Snapshot(self._context, self._state()).get_many(keys)
        return self._keyed_only().get_many(keys)

    def delete(self, key: Any) -> None:
        """Delete the row of a key, if there is one."""
        self._writer().delete(key)

    def delete_batch(self, keys: Sequence[Any]) -> None:
        """Delete the rows of several keys."""
        self._writer().delete_batch(keys)

    def flush(self) -> int:
        """Commit what was put and deleted so far; returns the version of the table that has it."""
        return self._keyed_only().flush()

    # Versions

    def history(self, limit: int | None = None) -> list[CommitInfo]:
        """What happened to the table, newest first."""
        self._require_open()
        if self._shown is None:
            return self._context.catalog.history(self.id, limit)
        return [info for info in self._context.catalog.history(self.id) if info.version <= self._shown][:limit]

    def at(
        self, version: int | None = None, timestamp: datetime | str | None = None, tag: str | None = None
    ) -> Snapshot:
        """The table as it was at a version of the lake, at a time, or at the version that has a tag.

        In a `with` block it is pinned against clean-up.
        """
        if [version, timestamp, tag].count(None) != 2:
            raise InvalidInput("at() takes one of version, timestamp and tag.")
        if timestamp is not None:
            version = self._context.catalog.version_at(to_nanos(timestamp))
        if tag is not None:
            version = self._ref(tag).version
        return Snapshot(self._context, self._state(version))

    def tag(self, name: str, version: int | None = None) -> Outcome:
        """Give a name to a version, by default the newest; a tag of that name moves. Clean-up leaves it readable."""
        state = self._writable()
        if version is None and (keyed := self._keyed()) is not None:
            keyed.flush()
            state = self._state()
        chosen = state.head_version if version is None else _whole_number(version)
        self._state(chosen)
        ref = Ref(check_ref_name(name), chosen)
        return self._set(SetProperties({ref.key: ref.to_json()}))

    def tags(self) -> dict[str, int]:
        """The versions that have a name, by name; also branches that Iceberg engines made, which nothing writes to."""
        return {name: ref.version for name, ref in refs_of(self._state().properties).items()}

    def drop_tag(self, name: str) -> Outcome:
        """Take the name from a version; it is cleaned up when its time has come."""
        self._writable()
        return self._set(SetProperties({}, (self._ref(name).key,)))

    def _ref(self, name: str) -> Ref:
        found = refs_of(self._state().properties)
        if name not in found:
            known = f"; it has {', '.join(map(repr, found))}" if found else ""
            raise NotFound(f"Table {self.name} has no tag {name!r}{known}.")
        return found[name]

    def restore(self, version: int) -> Outcome:
        """Bring back the rows and the schema of an older version, as a new version."""
        if self._writable() and (keyed := self._keyed()) is not None:
            return bulk.restore(self._context, keyed, _whole_number(version))
        return self._set(Restore(_whole_number(version)))

    def changes(
        self,
        since: int,
        until: int | None = None,
        columns: Sequence[str] | None = None,
        where: Where = None,
        *,
        net: bool = False,
    ) -> Changes:
        """What happened to the rows in the versions after `since`, up to `until` or now.

        Version by version; with `net`, what the two ends differ in. Every version from `since` on must be kept.
        """
        self._require_open()
        last = self._shown if until is None else _whole_number(until)
        state = self._context.catalog.state_until(self.id, _whole_number(since), last)
        return Changes(self._context, state, since, columns=columns, where=where, net=net)

    # Settings

    def add_column(
        self, name: str, type: Any, default: Any = None, *, required: bool = False, doc: str | None = None
    ) -> Outcome:
        """Add a column; rows that lack it, old and new, read as `default`."""
        return self._alter(AddColumn(name, to_type(type, f"column {name}"), default, required, doc))

    def rename_column(self, name: str, new_name: str) -> Outcome:
        return self._alter(RenameColumn(name, new_name))

    def drop_column(self, name: str) -> Outcome:
        return self._alter(DropColumn(name))

    def widen_column(self, name: str, type: Any) -> Outcome:
        return self._alter(WidenColumn(name, to_type(type, f"column {name}")))

    def move_column(
        self, name: str, *, first: bool = False, after: str | None = None, before: str | None = None
    ) -> Outcome:
        return self._alter(MoveColumn(name, first, after, before))

    def set_nullable(self, name: str) -> Outcome:
        return self._alter(SetNullable(name))

    def set_properties(self, properties: Mapping[str, Any], *, remove: Sequence[str] = ()) -> Outcome:
        """Set properties, and remove those named in `remove`."""
        return self._set(SetProperties(check_properties(properties), tuple(remove)))

    def set_partitioning(self, fields: Sequence[str]) -> Outcome:
        """Partition what is written from now on; older segments keep theirs."""
        return self._set(SetPartitioning(tuple(fields)))

    def set_sort_order(self, fields: Sequence[str]) -> Outcome:
        """Sort what is written from now on, such as by ["region", "ts desc"]; older segments follow when merged."""
        return self._set(SetSortOrder(tuple(fields)))

    # Secondary indexes

    def create_index(self, column: str, kind: str = "btree", name: str | None = None) -> IndexInfo:
        """Index a column: `btree` finds values and ranges, `bloom` rules out segments without a value.

        Built on Spark when a session is at hand and the table is large. Merges carry it over; segments written later
        are covered by a merge or by `update_indexes`, and until then read without it.
        """
        state = self._writable()
        version = indexing.create_index(self._context, state, column, kind, name)
        return next(info for info in self.indexes() if info.created_version == version)

    def drop_index(self, name: str) -> Outcome:
        """Drop a secondary index."""
        return Outcome(indexing.drop_index(self._context, self._writable(), name))

    def update_indexes(self) -> Outcome:
        """Let every index cover all segments that there are now."""
        return Outcome(indexing.update_indexes(self._context, self._writable()))

    def indexes(self) -> list[IndexInfo]:
        """The secondary indexes, by name."""
        return indexing.list_indexes(self._context, self._state())

    # Maintenance

    def compact(self, *, everything: bool = False, progress: Callable[[int, int], None] | None = None) -> Compaction:
        """Merge small, fresh and worn segments; on Spark when a session is at hand and the work is large."""
        self._writable()
        keyed = self._keyed()
        if keyed is None:
            return compact(self._context, self._state, everything=everything, progress=progress)
        keyed.flush()
        done = compact(self._context, self._state, everything=everything, progress=progress)
        keyed.refresh()
        return done

    def refresh(self) -> int:
        """The version of the lake that reads see from now on. Only a table opened read-only needs it to see newer ones.

        Reads under way go on with the version they began with.
        """
        self._require_open()
        if self._follow is not None:
            self._follow()
        newest = self._context.catalog.table_by_id(self.id).version
        if self._read_only:
            self._shown = newest
        return newest

    def to_spark(self, version: int | None = None) -> DataFrame:
        """The table as a Spark DataFrame, read natively."""
        if self._to_spark is None:
            raise FailedPrecondition(
                "This table was opened without Spark; open it with moulin.connect(...).table(...)."
            )
        if version is None and self.id in self._context.keyed:
            self._context.keyed[self.id].flush()
        return self._to_spark(self, version)

    def export_iceberg(
        self, directory: str | os.PathLike[str], *, version: int | None = None, copy: bool = False
    ) -> Any:
        """Write the table, now or at a version, as an Iceberg table of its own into a folder or object store.

        Data files stay where they are, unless `copy`. The answer says where its metadata lies.
        """
        self._require_open()
        if version is None and self.id in self._context.keyed and not self._read_only:
            self._context.keyed[self.id].flush()
        shown = self._shown if version is None else _whole_number(version)
        return self._context.export_iceberg(self._context, self.id, os.fspath(directory), version=shown, copy=copy)

    def close(self) -> None:
        """Flush what was put, and refuse further use of this object; rows of a keyed table can still be read."""
        if not self._closed:
            self._closed = True
            self._put = None
            if self._writes:
                self._context.keyed[self.id].leave()

    def _state(self, version: int | None = None) -> TableState:
        self._require_open()
        return self._context.catalog.table_by_id(self.id, self._shown if version is None else _whole_number(version))

    def _writable(self) -> TableState:
        state = self._state()
        if self._closed:
            raise Closed("The table was closed; open it again with lake.table(...).")
        if self._read_only:
            raise FailedPrecondition(f"Table {state.full_name} was opened read-only; open it for writing first.")
        return state

    def _require_open(self) -> None:
        if self._closed and self.id not in self._context.keyed:
            raise Closed("The table was closed; open it again with lake.table(...).")

    def _alter(self, *changes: SchemaChange) -> Outcome:
        return self._set(AlterSchema(changes))

    def _set(self, operation: Operation) -> Outcome:
        state = self._writable()
        change = SettingChange(self.id, state.version, operation)
        version = self._context.committer.commit([change]).version
        if self.id in self._context.keyed:
            self._context.keyed[self.id].refresh()
        return Outcome(version)

    def _keyed(self) -> KeyedTable | None:
        """This table as a keyed one; None when it has no key."""
        return keyed_table(self._context, self.id)

    def _keyed_only(self) -> KeyedTable:
        keyed = self._context.keyed.get(self.id) or self._keyed()
        if keyed is None:
            raise FailedPrecondition(
                f"Table {self.name} has no primary key, which put, get and delete need: use append, scan, delete_where."
            )
        return keyed

    def _writer(self) -> KeyedTable:
        """The keyed table, to write to it row by row."""
        if self._closed:
            raise Closed("The table was closed; open it again with lake.table(...).")
        if self._read_only:
            self._writable()
        keyed = self._keyed_only()
        if not self._writes:
            self._writes = True
            keyed.enter()
        return keyed


def to_nanos(timestamp: datetime | str) -> int:
    """Unix nanoseconds of a time, cut to what 64 bits hold; text is ISO 8601, without a zone it is UTC."""
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.fromisoformat(timestamp)
        except ValueError:
            raise InvalidInput(f"{timestamp!r} is not a time; write it like 2024-03-01T12:00:00+00:00.") from None
    if not isinstance(timestamp, datetime):
        raise InvalidInput(f"timestamp takes a datetime or ISO 8601 text, not {timestamp!r}.")
    if timestamp.tzinfo is None:
        timestamp = timestamp.replace(tzinfo=UTC)
    delta = timestamp - datetime(1970, 1, 1, tzinfo=UTC)
    nanos = (delta.days * 86_400 + delta.seconds) * 1_000_000_000 + delta.microseconds * 1000
    return max(-(2**63), min(nanos, 2**63 - 1))


def _whole_number(version: object) -> int:
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidInput(f"A version is a whole number, not {version!r}.")
    return version
