"""Table: the API of one table. Each operation is implemented in its own module.

This module has rows and maintenance; versions.py has versions, settings.py has settings. Modules that only bulk
changes, compaction and statistics need are imported there, so that the first `get` is fast.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload
from uuid import UUID

from moulin.errors import Closed, FailedPrecondition, InvalidInput
from moulin.model.where import Where
from moulin.table.commit.retry import retry
from moulin.table.context import Context
from moulin.table.handle import whole_number
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.keyed.region import RegionWriter
from moulin.table.ports import Backfilled, BatchLoaded, Export, is_frame
from moulin.table.reading import TableReading
from moulin.table.settings import TableSettings
from moulin.table.versions import TableVersions
from moulin.table.write.writes import Outcome, prepare_append, prepare_delete, prepare_overwrite

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from pyspark.sql import DataFrame

    from moulin.table.adopt.adopt import Adoption
    from moulin.table.compact.compaction import Compaction
    from moulin.table.compact.move import Move
    from moulin.table.edit.commit import Compute
    from moulin.table.edit.merge_builder import MergeBuilder
    from moulin.table.erase.erasure import Erasure
    from moulin.table.stats import TableStats


class Table(TableReading, TableVersions, TableSettings):
    """One table of a lake. The object stores only the table's id: every call sees the newest version.

    A `read_only` table shows the version at which it was opened until `refresh`; `follow` makes the catalog look for
    newer versions, if it does not see them by itself.
    """

    def __init__(
        self,
        context: Context,
        table_id: UUID,
        *,
        read_only: bool = False,
        follow: Callable[[], int] | None = None,
        branch: Callable[..., Table] | None = None,
    ) -> None:
        super().__init__(context, table_id, read_only=read_only, follow=follow)
        self._branch = branch
        self._put: KeyedTable | RegionWriter | None = None  # the writer of single rows, once it is known
        self._writes = False

    def stats(self) -> TableStats:
        """Statistics of the table: levels, amplification, caches, stalls, regions and indexes. Reads no files.

        >>> stats = lake.table("shop.orders").stats()
        >>> stats.rows, stats.segments, stats.deleted_rows
        (1, 1, 0)
        """
        from moulin.table.stats import table_stats

        if not self._read_only and (keyed := self._keyed()) is not None:
            keyed.ready()
        return table_stats(self._context, self._state())

    def branch(
        self, name: str, *, at: int | str | datetime | None = None, expires: str | float | timedelta | None = None
    ) -> Table:
        """Create a branch with only this table, and return the table on it. `lake.publish(name)` publishes it to main.

        >>> mine = lake.table("shop.orders").branch("mine")
        >>> _ = mine.delete_where("amount < 0")
        >>> _ = lake.publish("mine")
        """
        if self._branch is None:
            raise FailedPrecondition("This table was opened without its lake: use lake.branch(name, tables=[...]).")
        return self._branch(self, name, at=at, expires=expires)

    # Rows

    def append(self, data: object, *, request_id: str | None = None, evolve: bool = False) -> Outcome:
        """Add rows from any Arrow source, a list of dicts, or a Spark DataFrame.

        With `evolve`, missing columns are added to the table, nullable and last, and types that are too narrow
        are widened (int to long, float to double, decimals to more digits, date to timestamp), in the same version.
        A second append with the same `request_id` does nothing and returns the version of the first one.

        >>> orders = lake.table("shop.orders")
        >>> orders.append([{"id": 2, "customer": "bob", "amount": 3.0}]).rows_added
        1
        >>> orders.append({"id": [3], "note": ["new column"]}, evolve=True).rows_added
        1
        """
        state = self._writable()
        if request_id is not None and (earlier := self._context.catalog.committed(request_id)):
            return Outcome(earlier.version)
        if evolve:
            from moulin.table.evolution import append_evolving

            return append_evolving(self._context, self._writable, self._keyed(), data, request_id)
        if state.schema.identifier_field_ids and (keyed := self._keyed()) is not None:
            from moulin.table.bulk import bulk

            return bulk.upsert(self._context, keyed, data, request_id)
        change = prepare_append(self._context, state, data, inline=True)
        if not change.added:
            return Outcome(state.head_version)
        committed = self._context.committer.commit([change], request_id=request_id)
        if state.inline or any(facts.inline is not None for facts in change.added):
            from moulin.table.compact.inline import compact_if_due

            compact_if_due(self._context, state, change.added)
        return Outcome(committed.version, rows_added=sum(facts.rows for facts in change.added))

    def backfill(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        source: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        batch_bytes: int | None = None,
        changed: str = "error",
        progress: Callable[[BatchLoaded], None] | None = None,
    ) -> Backfilled:
        """Load the Parquet, CSV or NDJSON files of a folder or object store on Spark, each file once.

        Files are loaded in the order of their paths, in batches of about `batch_bytes`. Each batch is one version; in a
        keyed table it is an upsert. The table remembers the files under the name `source`, by default the folder's
        address: the next call resumes an interrupted one, and later calls load new files. A file that changed
        after it was loaded raises an error, or is skipped with `changed="skip"`. `progress` is called after each batch.

        >>> import os
        >>> os.mkdir("exports")
        >>> with open("exports/orders.csv", "w") as file:
        ...     _ = file.write("id,customer,amount\\n2,bob,3.5\\n")
        >>> orders = lake.table("shop.orders")
        >>> orders.backfill("exports").rows, orders.backfill("exports").rows
        (1, 0)
        """
        self._writable()
        return self._context.spark().backfill(
            self.id,
            os.fspath(path),
            format=format,
            source=source,
            storage_options=storage_options,
            batch_bytes=batch_bytes,
            changed=changed,
            progress=progress,
        )

    def adopt(
        self,
        source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        by: str = "auto",
        extra: str = "error",
        hive: bool = True,
        skip_known: bool = False,
        again: bool = False,
        request_id: str | None = None,
    ) -> Adoption:
        """Add existing Parquet files to this table in place, in one version, without copying them.

        `source` is a folder, a file, a pattern such as "s3://bucket/events/**/*.parquet", or a list of files and
        folders. They must be below a base path; if there is none, their folder becomes one. The lake never
        changes or deletes such a file. If a file is deleted or changed later, reading it raises Corrupt.

        Columns are matched by field id if the files have field ids, else by name; `by` "name" or "id" forces one.
        Columns missing in the files are null, or their default, or a value from the path (`day=2026-01-01/`) unless
        `hive` is False. Columns that the table lacks raise an error, or are ignored with `extra="ignore"`. A table
        remembers the files that it has adopted: adopting one again raises an error, or skips it with `skip_known`; with
        `again`, a file whose rows were removed or rewritten is adopted once more. A second call with the same
        `request_id` does nothing.

        In a table with a primary key, adopted rows replace existing rows of their keys, as in `append`. A duplicate key
        in the files raises an error. The keys of the files are read, and a key index is written into the lake.

        >>> import os, pyarrow as pa, pyarrow.parquet as pq
        >>> os.mkdir("exports")
        >>> pq.write_table(pa.table({"id": [2, 3], "customer": ["bob", "eve"]}), "exports/part-0.parquet")
        >>> orders = lake.table("shop.orders")
        >>> orders.adopt("exports").rows, orders.count()
        (2, 3)
        """
        from moulin.table.adopt.adopt import Adoption, adopt

        state = self._writable()
        if request_id is not None and (earlier := self._context.catalog.committed(request_id)):
            return Adoption(earlier.version)
        options: dict[str, Any] = {"by": by, "extra": extra, "hive": hive, "skip_known": skip_known, "again": again}
        return adopt(self._context, state, source, keyed=self._keyed(), request_id=request_id, **options)

    def move(self, where: Where = None, *, base: str, progress: Callable[[int, int], None] | None = None) -> Move:
        """Move segments in which all rows match, or without `where` all segments, to a base path of the lake.

        Rows, their ids and older versions do not change. A segment is copied
        there, verified, and then replaces the old one, whose file clean-up deletes. A killed call
        loses nothing; the next call moves the remaining segments.

        >>> import os
        >>> os.mkdir("archive")
        >>> _ = lake.add_base("./archive", name="archive")
        >>> lake.table("shop.orders").move(base="archive").segments
        1
        """
        from moulin.table.compact.move import move

        self._writable()
        self._flush()
        return move(self._context, self._writable, where, base, progress)

    def delete_where(self, where: Where) -> Outcome:
        """Delete the rows that match. No data is rewritten.

        >>> lake.table("shop.orders").delete_where("amount < 10 and customer = 'ann'").rows_deleted
        1
        """
        if self._writable() and (keyed := self._keyed()) is not None:
            from moulin.table.bulk import bulk

            return bulk.delete_where(self._context, keyed, where)

        def run() -> Outcome:
            state = self._writable()
            change, rows = prepare_delete(self._context, state, where)
            if rows == 0:
                return Outcome(state.head_version)
            return Outcome(self._context.committer.commit([change]).version, rows_deleted=rows)

        return retry(self._context.config.commit_attempts, run)

    def erase(self, where: Where, *, report_key: str | bytes | None = None) -> Erasure:
        """Erase the rows that match from every version, tag, branch and clone, and from storage. This cannot be undone.

        A row matches if it matched in any kept version, even if it was deleted later. The result
        has a report of every file that was rewritten or deleted, and of copies that cannot be erased. It is signed
        with `report_key` (or the environment's MOULIN_ERASE_KEY), and has a plain digest without one. If it is killed,
        the same call completes it. With a lake behind a server, the server erases, which needs the role
        admin, and `where` must be SQL text.

        >>> done = lake.table("shop.orders").erase("customer = 'ann'")
        >>> done.complete, lake.table("shop.orders").count()
        (True, 0)
        """
        from moulin.table.erase.erasure import erase
        from moulin.table.erase.report import key_of

        self._writable()
        return erase(self._context, self.id, where, key_of(report_key))

    def update(self, set: Mapping[str, object], where: Where = None) -> Outcome:
        """Set columns to new values in the rows that match, or in all rows, in one version.

        In `set`, a string is an expression in the syntax of `where` over the columns of the row, and any other value is
        a constant. Rows keep their `_row_id`. Primary key columns cannot be set.

            orders.update(set={"amount": "amount * 2", "note": None, "state": "'paid'"}, where="id = 1")

        >>> orders = lake.table("shop.orders")
        >>> orders.update(set={"amount": "amount * 2", "customer": "upper(customer)"}, where="id = 1").rows_updated
        1
        """
        from moulin.table.edit.update import update

        self._writable()
        return update(self._context, self._writable, self._keyed(), set, where)

    def overwrite(self, data: object, where: Where = None) -> Outcome:
        """Replace all rows, or those that match, with the rows of `data`, in one version.

        >>> orders = lake.table("shop.orders")
        >>> orders.overwrite([{"id": 1, "customer": "eve", "amount": 1.0}], where="id = 1").rows_deleted
        1
        """
        if self._writable() and (keyed := self._keyed()) is not None:
            from moulin.table.bulk import bulk

            return bulk.overwrite(self._context, keyed, data, where)
        added = prepare_append(self._context, self._writable(), data).added

        def run() -> Outcome:
            change, rows = prepare_overwrite(self._context, self._writable(), added, where)
            version = self._context.committer.commit([change]).version
            return Outcome(version, sum(facts.rows for facts in added), rows)

        return retry(self._context.config.commit_attempts, run)

    def overwrite_partitions(self, data: object) -> Outcome:
        """Replace the partitions of the rows of `data`, in one version; other partitions do not change.

        >>> days = lake.create_table("shop.days", [("day", "date"), ("visits", "long")], partition_by=["day"])
        >>> _ = days.append([{"day": "2026-01-30", "visits": 5}, {"day": "2026-01-31", "visits": 7}])
        >>> _ = days.overwrite_partitions([{"day": "2026-01-31", "visits": 9}])
        >>> days.scan(["visits"], order_by="day").to_pylist()
        [{'visits': 5}, {'visits': 9}]
        """
        from moulin.table.edit.partitions import overwrite_partitions

        self._writable()
        if self._keyed() is not None:
            raise FailedPrecondition(f"Table {self.name} has a primary key: use append, or overwrite with a condition.")
        return overwrite_partitions(self._context, self._writable, data)

    @overload
    def merge(self, source: object, on: str) -> MergeBuilder: ...

    @overload
    def merge(
        self,
        source: object,
        on: None = None,
        *,
        when_matched: str | None = "update",
        when_matched_set: Mapping[str, str] | None = None,
        when_matched_if: str | None = None,
        when_matched_delete_if: str | None = None,
        when_not_matched: str | None = "insert",
        when_not_matched_set: Mapping[str, str] | None = None,
        when_not_matched_if: str | None = None,
    ) -> Outcome: ...

    def merge(
        self,
        source: object,
        on: str | None = None,
        *,
        when_matched: str | None = "update",
        when_matched_set: Mapping[str, str] | None = None,
        when_matched_if: str | None = None,
        when_matched_delete_if: str | None = None,
        when_not_matched: str | None = "insert",
        when_not_matched_set: Mapping[str, str] | None = None,
        when_not_matched_if: str | None = None,
    ) -> Outcome | MergeBuilder:
        """Match the rows of `source` with the rows of the table, and update, delete or insert rows, in one version.

        With `on`, for any table: returns a `MergeBuilder`, to which you add clauses and call `execute`.

            orders.merge(rows, on="target.id = source.id").when_matched_update_all().execute()

        Without `on`, for keyed tables: rows are matched by key, and the merge runs at once.
        `source` is a Spark DataFrame, any Arrow source, or a list of dicts, with the key columns and each
        key once. A matched row is updated or deleted where `when_matched_if` holds ("source.ts > target.ts"): updated
        to the columns of the source, or as in `when_matched_set` ({"total": "source.x + target.total"});
        its other columns do not change. Rows for which `when_matched_delete_if` holds are deleted instead. Rows without
        a match are inserted where `when_not_matched_if` holds: with the columns of the source, or the key and
        `when_not_matched_set`; both can use only `source`.

        >>> orders = lake.table("shop.orders")
        >>> rows = [{"id": 1, "amount": 1.0}, {"id": 2, "amount": 2.0}]
        >>> merge = orders.merge(rows, on="target.id = source.id")
        >>> done = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        >>> done.rows_updated, done.rows_added
        (1, 1)
        """
        from moulin.model.merge_rules import MergeRules
        from moulin.table.bulk.commit import merge, source_schema

        state = self._writable()
        options = (when_matched_set, when_matched_if, when_matched_delete_if, when_not_matched_set, when_not_matched_if)
        if on is not None:
            from moulin.table.edit.merge_builder import MergeBuilder

            if when_matched != "update" or when_not_matched != "insert" or any(one is not None for one in options):
                raise InvalidInput(
                    "A merge with `on` takes its clauses as calls, such as when_matched_update(...): remove the "
                    "options "
                    "of a merge by key."
                )
            return MergeBuilder(self._context, self._writable, self._keyed, source, on)
        keyed = self._keyed_only()
        if is_frame(source):
            schema = self._context.spark().frame_schema(source)
        else:
            source, schema = source_schema(source, state.schema)
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

    def edit(self, compute: Compute, statement: str) -> Outcome:
        """Commit the edits that `compute` returns for the newest rows, in one version, for a `statement` such as
        "UPDATE".

        It is called again if rows that it read have changed before the commit.
        """
        from moulin.table.edit.commit import apply_edits

        self._writable()
        return apply_edits(self._context, self._writable, self._keyed(), compute, {"statement": statement})

    # Rows by key

    def put(self, row: Mapping[str, Any]) -> None:
        """Insert a row, or replace the row with the same key. The row is durable on return, depending on `log_sync`.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> users.put({"name": "ann", "age": 41})
        >>> users.get("ann")
        {'name': 'ann', 'age': 41}
        """
        writer = self._put
        if writer is None:
            writer = self._put = self._writer().direct()
        try:
            writer.put(row)
        except Closed:  # the region was released for a while; raises again if the table is closed
            self._put = None
            self._writer().put(row)

    def put_batch(self, data: object) -> int:
        """Insert or replace rows from a list of dicts or any Arrow source. Returns the number of rows.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> users.put_batch({"name": ["ann", "bob"], "age": [41, 25]})
        2
        """
        return self._writer().put_batch(data)

    def delete(self, key: Any) -> None:
        """Delete the row of a key, if there is one.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> users.put({"name": "ann", "age": 41})
        >>> users.delete("ann")
        >>> users.get("ann")
        """
        self._writer().delete(key)

    def delete_batch(self, keys: Sequence[Any]) -> None:
        """Delete the rows of several keys.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> _ = users.put_batch({"name": ["ann", "bob"], "age": [41, 25]})
        >>> users.delete_batch(["ann", "bob", "eve"])
        >>> users.count()
        0
        """
        self._writer().delete_batch(keys)

    def flush(self, *, take_over: bool = False) -> int:
        """Commit the puts and deletes so far, and those in logs of dead writers. Returns the version.

        A log in an object store whose writer ran on another machine is flushed only with `take_over`; if that writer
        is still running, it is fenced.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> users.put({"name": "ann", "age": 41})
        >>> version = users.flush()
        >>> users.at(version=version).count()
        1
        """
        return self._keyed_only().flush(take_over=take_over)

    def forget_lost_logs(self) -> list[int]:
        """Discard logs that are missing or truncated. Rows that only they contained are lost.

        Use it if reads and writes of the table raise Corrupt because of such a log and you have no copy. Returns
        the numbers of the regions.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> users.forget_lost_logs()
        []
        """
        self._writable()
        return self._keyed_only().forget_lost_logs()

    # Maintenance

    def compact(self, *, everything: bool = False, progress: Callable[[int, int], None] | None = None) -> Compaction:
        """Compact small, new and partly deleted segments; on Spark if a session is open and the work is large.

        Unverified files of engines are verified first. Raises Corrupt if one is quarantined.

        >>> orders = lake.table("shop.orders")
        >>> for number in range(2, 12):
        ...     _ = orders.append([{"id": number, "customer": "bob", "amount": 1.0}])
        >>> done = orders.compact()
        >>> done.segments_in, done.segments_out, orders.count()
        (11, 1, 11)
        """
        from moulin.table.compact.compaction import compact
        from moulin.table.verify import verify

        verify(self._context, self._writable())
        keyed = self._keyed()
        if keyed is None:
            return compact(self._context, self._state, everything=everything, progress=progress)
        keyed.flush()
        done = compact(self._context, self._state, everything=everything, progress=progress)
        keyed.refresh()
        return done

    def fold(self) -> Compaction:
        """Rewrite every segment that has columns in separate files as one file, at the same level.

        Each segment is a separate compaction. Other compactions also fold.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.add_column("twice", "double", from_sql="amount * 2")
        >>> orders.fold().segments_out
        1
        """
        from moulin.table.compact.compaction import fold

        done = fold(self._context, self._writable())
        if (keyed := self._keyed()) is not None:
            keyed.refresh()
        return done

    def to_spark(self, version: int | None = None) -> DataFrame:
        """The table as a Spark DataFrame, read natively.

        >>> lake.table("shop.orders").to_spark().where("amount > 5").count()
        1
        """
        spark = self._context.spark()
        if version is None:
            self._flush()
        spark.session()  # Spark may take a while to start; use the version after that
        return spark.read(self._state(version))

    def export_iceberg(
        self, directory: str | os.PathLike[str], *, version: int | None = None, copy: bool = False
    ) -> Export:
        """Export the table, now or at a version, as a separate Iceberg table into a folder or object store.

        It refers to the lake's data files, or with `copy` to copies. The result has the location of its metadata.

        >>> exported = lake.table("shop.orders").export_iceberg("./orders-iceberg", copy=True)
        >>> exported.metadata_location.endswith(".metadata.json")
        True
        """
        self._require_open()
        exporter = self._context.exporter
        if exporter is None:
            raise FailedPrecondition(
                "This lake was opened without Iceberg; open it with moulin.connect to export tables."
            )
        if version is None:
            self._flush()
        shown = self._shown if version is None else whole_number(version)
        return exporter(self.id, os.fspath(directory), version=shown, copy=copy)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Flush the table, and reject further writes through this object. A keyed table can still be read.

        >>> with lake.table("shop.orders") as orders:
        ...     _ = orders.append([{"id": 2, "customer": "bob", "amount": 3.0}])
        """
        if not self._closed:
            self._closed = True
            self._put = None
            if self._writes:
                self._keyed_only().leave()

    def _writer(self) -> KeyedTable:
        """The keyed table, for writes of single rows."""
        if self._closed:
            raise Closed("The table was closed; open it again with lake.table(...).")
        if self._read_only:
            self._writable()
        keyed = self._keyed_only()
        if not self._writes:
            self._writes = True
            keyed.enter()
        return keyed
