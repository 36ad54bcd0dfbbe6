"""LakeObjects: the methods of `Lake` that create, list, rename and drop databases, base paths and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from moulin.errors import AlreadyExists, FailedPrecondition, InvalidInput
from moulin.lake.branches import LakeBranches
from moulin.model.entities import BasePath, Database, DropPreview, TableEntry
from moulin.model.names import check_name, parse_table_name
from moulin.storage.bases import BasesStore
from moulin.table.properties import check_properties

if TYPE_CHECKING:
    from datetime import datetime

    from moulin.table.table import Table


class LakeObjects(LakeBranches):
    """Databases, base paths and tables of the lake."""

    # Databases

    def create_database(
        self, name: str, *, properties: Mapping[str, Any] | None = None, if_not_exists: bool = False
    ) -> Database:
        """Create a database. With `if_not_exists`, return an existing one with the name.

        >>> lake.create_database("crm", if_not_exists=True).name
        'crm'
        """
        check_name(name, "database")
        return self._open_catalog().create_database(
            name, check_properties(properties or {}), if_not_exists=if_not_exists
        )

    def databases(self, *, include_dropped: bool = False) -> list[Database]:
        """List the databases by name, optionally with dropped ones.

        >>> [database.name for database in lake.databases()]
        ['shop']
        """
        return self._open_catalog().databases(include_dropped=include_dropped)

    def rename_database(self, name: str, new_name: str) -> Database:
        """Rename a database, with its tables and views.

        >>> lake.rename_database("shop", "store").name
        'store'
        """
        return self._open_catalog().rename_database(name, check_name(new_name, "database"))

    def preview_drop_database(self, name: str) -> DropPreview:
        """List the tables and views that a drop with `cascade` would drop, without dropping them.

        >>> [table.name for table in lake.preview_drop_database("shop").tables]
        ['orders']
        """
        return self._open_catalog().preview_drop_database(name)

    def drop_database(self, name: str, *, cascade: bool = False, immediate: bool = False) -> Database:
        """Drop an empty database, or with `cascade` a database with everything in it.

        It can be resurrected until its grace period ends, unless `immediate` is set.

        >>> lake.create_database("scratch").name
        'scratch'
        >>> lake.drop_database("scratch").name
        'scratch'
        >>> lake.resurrect_database("scratch").name
        'scratch'
        """
        return self._open_catalog().drop_database(name, cascade=cascade, immediate=immediate)

    def resurrect_database(self, name: str) -> Database:
        """Restore a dropped database, with everything that was dropped with it, within its grace period.

        >>> _ = lake.drop_database("shop", cascade=True)
        >>> _ = lake.resurrect_database("shop")
        >>> lake.table("shop.orders").count()
        1
        """
        return self._open_catalog().resurrect_database(name)

    # Base paths

    def add_base(self, uri: str | Path, *, name: str) -> BasePath:
        """Register a base path: another folder or object store for data files, such as s3://archive/lake.

        Files below it can be adopted, and segments can be moved there. Its storage options are not stored in the lake:
        pass them as `base_options` of `moulin.connect`, or MOULIN_BASE_OPTIONS in the environment.

        >>> import os
        >>> os.mkdir("archive")
        >>> lake.add_base("./archive", name="archive").name
        'archive'
        """
        catalog = self._open_catalog()
        return catalog.add_base(name, self._bases_store().address(uri, name))

    def bases(self) -> list[BasePath]:
        """List the base paths.

        >>> import os
        >>> os.mkdir("archive")
        >>> _ = lake.add_base("./archive", name="archive")
        >>> [base.name for base in lake.bases()]
        ['archive']
        """
        return self._open_catalog().bases()

    def drop_base(self, name: str) -> BasePath:
        """Remove a base path. Rejected while a kept version has a file below it. No file is deleted.

        >>> import os
        >>> os.mkdir("archive")
        >>> _ = lake.add_base("./archive", name="archive")
        >>> lake.drop_base("archive").name
        'archive'
        """
        return self._open_catalog().drop_base(name)

    def _bases_store(self) -> BasesStore:
        if not isinstance(self.store, BasesStore):
            raise FailedPrecondition("This lake was opened without base paths; open it with moulin.connect.")
        return self.store

    # Tables

    def create_table(
        self,
        name: str,
        schema: Any,
        *,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        event_time: str | None = None,
        properties: Mapping[str, Any] | None = None,
        data: object | None = None,
        replace: bool = False,
        if_not_exists: bool = False,
    ) -> Table:
        """Create a table. `schema` is a pyarrow.Schema or a list of (name, type[, nullable]) tuples.

        Rows are sorted by `sort_by`, or else by `event_time`, the column used to prune by time ranges. A table with a
        `primary_key` is keyed: it has one row per key, is sorted by it, and supports `put` and `get`. With `data`,
        which may be anything that `Table.append` accepts, the table is created with these rows; keys must be unique.
        With `replace`, an existing table with the name is dropped. All of this is one version.

        >>> columns = [("ts", "timestamptz", False), ("kind", "string")]
        >>> events = lake.create_table("shop.events", columns, partition_by=["day(ts)"], event_time="ts")
        >>> events.append([{"ts": "2026-01-31T12:00:00Z", "kind": "click"}]).rows_added
        1
        """
        from moulin.table.creation import create, new_table

        if replace and if_not_exists:
            raise InvalidInput("replace and if_not_exists cannot be combined.")
        database, table = parse_table_name(name)
        new = new_table(
            schema,
            primary_key=primary_key,
            partition_by=partition_by,
            sort_by=sort_by,
            event_time=event_time,
            properties=properties,
        )
        self._open_catalog()
        if if_not_exists and any(one.name == table for one in self.tables(database)):
            return self.table(name)
        try:
            state, _ = create(self.context, database, table, new, data, replace=replace)
        except AlreadyExists:
            if not if_not_exists:
                raise
            return self.table(name)
        return self._home(database)._table(state.id)

    def clone_table(
        self, source: str | Table, name: str, *, at: int | str | datetime | None = None, copy: bool = False
    ) -> Table:
        """Create a table with the rows, columns and settings of another table, as of now or `at` a version, tag or
        time.

        No rows are copied: the clone reads the files of its source, which are kept as long as it needs them. Afterwards
        each table writes its own files. With `copy` the rows are copied, and the source may be a table of
        another lake.

        >>> clone = lake.clone_table("shop.orders", "shop.orders_test")
        >>> clone.delete_where("id = 1").rows_deleted, lake.table("shop.orders").count()
        (1, 1)
        """
        from moulin.table.cloning import clone

        database, table = parse_table_name(name)
        self._open_catalog()
        found = self.table(source) if isinstance(source, str) else source
        return self._home(database)._table(clone(self.context, found.as_of(at), database, table, copy=copy).id)

    def import_table(
        self,
        source: str | Path,
        name: str,
        *,
        format: str | None = None,
        partition_by: Sequence[str] | None = None,
        primary_key: Sequence[str] = (),
    ) -> Table:
        """Create a table from an Iceberg, Delta or Parquet table in place: its files are adopted, not copied.

        `source` is the folder of an Iceberg table (or a metadata.json), of a Delta table, or a folder of Parquet files,
        whose paths may contain values (`day=2026-01-01/`). The newest version is imported. `format`, "iceberg", "delta"
        or "parquet", is detected by default. Rows of a Lance table are copied. `partition_by` replaces
        the partitioning of the source. With a `primary_key` the table is keyed: each key must be in only one row of
        the source. Sources with unsupported features, such as renamed columns of Delta, are rejected.

        >>> import os, pyarrow as pa, pyarrow.parquet as pq
        >>> os.mkdir("exports")
        >>> pq.write_table(pa.table({"id": [1, 2, 3]}), "exports/part-0.parquet")
        >>> lake.import_table("exports", "shop.exports").count()
        3
        """
        from moulin.table.adopt.importing import import_table

        database, table = parse_table_name(name)
        self._open_catalog()
        options: dict[str, Any] = {"format": format, "partition_by": partition_by, "primary_key": primary_key}
        return self._table(import_table(self.context, source, database, table, **options).id)

    def table(self, name: str, *, read_only: bool = False) -> Table:
        """Open a table. With `read_only` it shows the current version until `refresh` is called.

        "shop.orders@test" is the table shop.orders on the branch test.

        >>> lake.table("shop.orders").count()
        1
        """
        database, _ = parse_table_name(name)
        return self._home(database)._table(self._resolve(name), read_only=read_only)

    def tables(self, database: str | None = None, *, include_dropped: bool = False) -> list[TableEntry]:
        """List the tables of a database, or of all databases, with counts of their newest versions.

        >>> [(table.database, table.name, table.rows) for table in lake.tables()]
        [('shop', 'orders', 1)]
        """
        catalog = self._open_catalog()
        names = [one.name for one in catalog.databases()] if database is None else [database]
        return [table for name in names for table in catalog.tables(name, include_dropped=include_dropped)]

    def rename_table(self, name: str, new_name: str) -> Table:
        """Rename a table, or move it to another database. Its rows, versions and id do not change.

        >>> lake.rename_table("shop.orders", "shop.sales").name
        'shop.sales'
        """
        database, new = parse_table_name(new_name)
        renamed = self._open_catalog().rename_table(*parse_table_name(name), database, new)
        return self._home(database)._table(renamed.id)

    def replace_table(self, name: str, replacement: str) -> Table:
        """Replace a table by another one of its database: drop it and rename the other, in one version.

        The dropped table can be resurrected once the name is free. Rejected while views or tokens use the table.

        >>> _ = lake.create_table("shop.new_orders", [("id", "long")])
        >>> lake.replace_table("shop.orders", "shop.new_orders").count()
        0
        """
        database, table = parse_table_name(name)
        other, new = parse_table_name(replacement)
        if other != database:
            raise InvalidInput(
                f"A table can only be replaced by one of the same database: {replacement} is not in {database!r}."
            )
        return self._home(database)._table(self._open_catalog().replace_table(database, table, new).id)

    def drop_table(self, name: str, *, immediate: bool = False) -> TableEntry:
        """Drop a table. It can be resurrected until its grace period ends, unless `immediate` is set.

        >>> lake.drop_table("shop.orders").name
        'orders'
        >>> lake.resurrect_table("shop.orders").count()
        1
        """
        return self._open_catalog().drop_table(*parse_table_name(name), immediate=immediate)

    def resurrect_table(self, name: str) -> Table:
        """Restore a dropped table within its grace period.

        >>> _ = lake.drop_table("shop.orders")
        >>> lake.resurrect_table("shop.orders").count()
        1
        """
        database, table = parse_table_name(name)
        return self._home(database)._table(self._open_catalog().resurrect_table(database, table).id)

    def _table(self, table_id: UUID, *, read_only: bool = False) -> Table:
        from moulin.table.table import Table

        only_read = read_only or self.read_only
        return Table(self.context, table_id, read_only=only_read, follow=self.refresh, branch=self._branch_table)

    def _branch_table(self, table: Table, name: str, **options: Any) -> Table:
        """A table on a new branch; see `Table.branch`."""
        full_name = self.catalog.table_by_id(table.id).full_name
        return self.branch(name, tables=[full_name], **options).table(full_name)


__all__ = ["LakeObjects"]
