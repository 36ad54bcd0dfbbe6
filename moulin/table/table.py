"""Table: the front door to one table. Thin: each verb lives in its own module.

Here are its rows and its upkeep; its past is in versions.py, its settings are in settings.py. What only bulk changes,
compaction and statistics use is loaded by them, so that a row by its key is there soon.
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
        follow: Callable[[], int] | None = None,
        branch: Callable[..., Table] | None = None,
    ) -> None:
        super().__init__(context, table_id, read_only=read_only, follow=follow)
        self._branch = branch
        self._put: KeyedTable | RegionWriter | None = None  # what takes rows one by one, once it is known
        self._writes = False

    def stats(self) -> TableStats:
        """Figures about the table: levels, amplification, caches, stalls, regions and indexes. Reads no file.

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
        """Begin a branch with this table alone, and return the table on it. `lake.publish(name)` brings it to main.

        >>> mine = lake.table("shop.orders").branch("mine")
        >>> _ = mine.delete_where("amount < 0")
        >>> _ = lake.publish("mine")
        """
        if self._branch is None:
            raise FailedPrecondition("This table was opened without its lake: lake.branch(name, tables=[...]).")
        return self._branch(self, name, at=at, expires=expires)

    # Rows

    def append(self, data: object, *, request_id: str | None = None, evolve: bool = False) -> Outcome:
        """Add rows: Arrow in any form, a list of dicts, any object with an Arrow stream, or a Spark DataFrame.

        With `evolve`, columns that the table lacks are added to it, nullable and last, and types that are too narrow
        are widened (int to long, float to double, decimals to more digits, date to timestamp), in the same version.
        With a `request_id`, a second append of the same id does nothing and returns the version of the first one.

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
        address: a call that was killed is resumed by the next one, and later calls load new files. A file that changed
        after it was loaded is an error, or is skipped with `changed="skip"`. `progress` is called after each batch.

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
        """Make foreign Parquet files segments of this table in place, in one version. No byte is copied.

        `source` is a folder, a file, a pattern such as "s3://bucket/events/**/*.parquet", or a list of files and
        folders. They lie below a base path; if the lake has none for them, their folder becomes one. The lake never
        changes or deletes such a file. One that is gone or changed later is Corrupt when it is read.

        Columns are matched by field id where files have some, else by name; `by` "name" or "id" decides it. Columns
        that files lack are null, or their default, or a value of the path (`day=2026-01-01/`) unless `hive` is False.
        Columns that the table lacks are an error, or left out with `extra="ignore"`. A table remembers the files
        that it has adopted: one of them is an error, or left out with `skip_known`; with `again`, one whose rows were
        removed or rewritten is adopted once more. With a `request_id`, a second call of the same id does nothing.

        In a table with a primary key, adopted rows replace those of their keys, as in `append`. A key that comes twice
        in the files is an error. The keys of files are read, and an index of them is written into the lake.

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
        """Move segments to a base path of the lake: whole ones, whose rows all match, or all without `where`.

        Rows, their ids and older versions stay the same. A segment is written
        there, read again, and then takes the place of the old one, whose file clean-up deletes. A call that was killed
        loses nothing; the next one moves what is left.

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
        """Delete the rows that match; no data is rewritten.

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
        """Erase the rows that match from every version, tag, branch and clone, and from storage: they cannot come back.

        A row counts with the columns that it had in any kept version, whether or not it was deleted since. The result
        has a report that names every file that was written again or deleted, and what is out of reach. It is signed
        with `report_key` (or the environment's MOULIN_ERASE_KEY), and has a plain digest without one. Killed at any
        point, the same call again completes it. A lake behind a server has the server erase, which takes the role
        admin; `where` is SQL text then.

        >>> done = lake.table("shop.orders").erase("customer = 'ann'")
        >>> done.complete, lake.table("shop.orders").count()
        (True, 0)
        """
        from moulin.table.erase.erasure import erase
        from moulin.table.erase.report import key_of

        self._writable()
        return erase(self._context, self.id, where, key_of(report_key))

    def update(self, set: Mapping[str, object], where: Where = None) -> Outcome:
        """Give columns new values in the rows that match, or in all rows, in one version.

        In `set`, text is an expression in the grammar of `where` over the columns of the row, and any other value is
        that value. Rows keep their `_row_id`. Columns of a primary key cannot be set.

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
        """Replace the partitions that the rows of `data` are in, in one version; others stay as they are.

        >>> days = lake.create_table("shop.days", [("day", "date"), ("visits", "long")], partition_by=["day"])
        >>> _ = days.append([{"day": "2026-01-30", "visits": 5}, {"day": "2026-01-31", "visits": 7}])
        >>> _ = days.overwrite_partitions([{"day": "2026-01-31", "visits": 9}])
        >>> days.scan(["visits"], order_by="day").to_pylist()
        [{'visits': 5}, {'visits': 9}]
        """
        from moulin.table.edit.partitions import overwrite_partitions

        self._writable()
        if self._keyed() is not None:
            raise FailedPrecondition(
                f"Table {self.name} has a primary key: replace rows with append, or with overwrite and a condition."
            )
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
        """Match the rows of `source` with the rows of the table, and do what is said, in one version.

        With `on`, on any table: returns a `MergeBuilder`, whose clauses say what to do and whose `execute` does it.

            orders.merge(rows, on="target.id = source.id").when_matched_update_all().execute()

        Without it, rows of a keyed table are matched by key, at once.
        `source` is a Spark DataFrame, Arrow in any of its forms, or a list of dicts, with the key's columns and each
        key once. A matched row is updated or deleted where `when_matched_if` holds ("source.ts > target.ts"): updated
        to the columns that the source has, or to what `when_matched_set` says ({"total": "source.x + target.total"});
        its other columns stay. Those for which `when_matched_delete_if` holds are deleted instead. Rows without a match
        are inserted where `when_not_matched_if` holds: the columns that the source has, or the key and what
        `when_not_matched_set` says; both name `source` alone.

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
                    "A merge with `on` takes its clauses as calls, such as when_matched_update(...): leave the options "
                    "of a merge by key out."
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
        """Commit the edits that `compute` makes of the newest rows, in one version, for a `statement` such as "UPDATE".

        It is called again when rows that it read have changed by the time of the commit.
        """
        from moulin.table.edit.commit import apply_edits

        self._writable()
        return apply_edits(self._context, self._writable, self._keyed(), compute, {"statement": statement})

    # Rows by key

    def put(self, row: Mapping[str, Any]) -> None:
        """Insert a row, or replace the one with its key. When it returns the row is durable, as `log_sync` says.

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
        except Closed:  # its region was given up for a while; once the table is closed, this raises it again
            self._put = None
            self._writer().put(row)

    def put_batch(self, data: object) -> int:
        """Insert or replace rows: a list of dicts, or Arrow in any of its forms. Returns how many there were.

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
        """Commit the puts and deletes so far, and those in logs of dead writers; returns the version that has them.

        A log in an object store whose writer ran on another machine is flushed only with `take_over`; if that writer
        still lives, it is fenced.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> users.put({"name": "ann", "age": 41})
        >>> version = users.flush()
        >>> users.at(version=version).count()
        1
        """
        return self._keyed_only().flush(take_over=take_over)

    def forget_lost_logs(self) -> list[int]:
        """Give up logs that are missing or cut short. Rows that only they had are lost.

        Use it if reads and writes of the table raise Corrupt because of such a log, and you have no copy of it. Returns
        the numbers of the regions.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> users.forget_lost_logs()
        []
        """
        self._writable()
        return self._keyed_only().forget_lost_logs()

    # Maintenance

    def compact(self, *, everything: bool = False, progress: Callable[[int, int], None] | None = None) -> Compaction:
        """Compact small, fresh and worn segments; on Spark if a session is open and the work is large.

        Files whose facts come from an engine's manifest are read first. Raises Corrupt if one is in quarantine.

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
        """Write every segment that has columns in files of their own as one file again, at the same level.

        Each segment is a compaction by itself; every other compaction folds, too.

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
        spark.session()  # which may take a while to start; the version is that of afterwards
        return spark.read(self._state(version))

    def export_iceberg(
        self, directory: str | os.PathLike[str], *, version: int | None = None, copy: bool = False
    ) -> Export:
        """Write the table, now or at a version, as an Iceberg table of its own into a folder or object store.

        It names the lake's data files, or with `copy` has its own. The result has the location of its metadata.

        >>> exported = lake.table("shop.orders").export_iceberg("./orders-iceberg", copy=True)
        >>> exported.metadata_location.endswith(".metadata.json")
        True
        """
        self._require_open()
        exporter = self._context.exporter
        if exporter is None:
            raise FailedPrecondition(
                "This lake was opened without Iceberg; to export tables open it with moulin.connect."
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
        """Flush the table, and refuse further writes through this object. A keyed table can still be read.

        >>> with lake.table("shop.orders") as orders:
        ...     _ = orders.append([{"id": 2, "customer": "bob", "amount": 3.0}])
        """
        if not self._closed:
            self._closed = True
            self._put = None
            if self._writes:
                self._keyed_only().leave()

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
