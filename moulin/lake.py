"""Lake: the front door, thin."""

# Decisions: docs/decisions/0208

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from moulin.catalog.backend import CatalogBackend, TokenBackend
from moulin.catalog.catalog import Catalog, own_catalog
from moulin.catalog.sql.clock import Clock
from moulin.config import Config, load_config
from moulin.deprecation import warn_renamed
from moulin.errors import (
    AlreadyExists,
    Closed,
    FailedPrecondition,
    InvalidInput,
    MoulinError,
    NotFound,
    Unsupported,
)
from moulin.model.entities import (
    SPARK,
    BasePath,
    Branch,
    Database,
    DropPreview,
    Representation,
    TableEntry,
    View,
    ViewQuery,
)
from moulin.model.names import AT, check_name, parse_table_name
from moulin.storage import paths
from moulin.storage.address import with_branch
from moulin.storage.bases import BasesStore, Options
from moulin.storage.cache import open_cached, with_cache
from moulin.storage.read_only import ReadOnlyStore
from moulin.storage.store import Store, open_store
from moulin.table.properties import check_properties

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame, SparkSession

    from moulin.table.branch_diff import BranchDiff
    from moulin.table.context import Context
    from moulin.table.ports import Duck, Exporter, Spark
    from moulin.table.publishing import Publication
    from moulin.table.table import Table
    from moulin.table.transaction import Transaction
    from moulin.table.trial import Expectations, Trial


class Lake:
    """One catalog and one storage root. Safe to use from several threads; several processes may open the same lake.

    What works on rows, Arrow above all, is loaded with the first table: opening a lake loads the catalog only.
    """

    def __init__(
        self,
        catalog: CatalogBackend,
        store: Store,
        uri: str,
        make_spark: Callable[[Lake], Spark] | None = None,
        make_exporter: Callable[[Lake], Exporter] | None = None,
        make_duck: Callable[[Lake], Duck] | None = None,
    ) -> None:
        self.uri = uri
        self.on_branch: str | None = None
        self.read_only = catalog.is_replica
        self.store = store
        self.catalog = catalog
        self._make_spark = make_spark
        self._make_exporter = make_exporter
        self._make_duck = make_duck
        self._duck: Duck | None = None
        self._closed = False
        self._branches: dict[str, Lake] = {}
        self._opened_by: Lake | None = None
        self._expected: Expectations | None = None
        self._context: Context | None = None
        self._lock = threading.Lock()  # for `_closed` and `_context`

    @classmethod
    def open(
        cls,
        uri: str | Path,
        *,
        storage: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        base_options: Options | None = None,
        settings: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        make_spark: Callable[[Lake], Spark] | None = None,
        make_exporter: Callable[[Lake], Exporter] | None = None,
        make_duck: Callable[[Lake], Duck] | None = None,
    ) -> Lake:
        """Open a lake; see `moulin.connect`."""
        catalog_uri, own, config = locate(str(uri), storage, storage_options, settings)
        store = BasesStore(own, config, base_options)
        catalog = Catalog.open(catalog_uri, store, config, clock=clock)
        store.follow(catalog.bases)
        return cls(catalog, store, str(uri), make_spark, make_exporter, make_duck)

    @classmethod
    def open_replica(
        cls,
        uri: str | Path,
        *,
        storage_options: Mapping[str, str] | None = None,
        base_options: Options | None = None,
        settings: Mapping[str, Any] | None = None,
        make_spark: Callable[[Lake], Spark] | None = None,
        make_exporter: Callable[[Lake], Exporter] | None = None,
        make_duck: Callable[[Lake], Duck] | None = None,
    ) -> Lake:
        """A read-only lake from the manifests in storage alone; see `moulin.connect`."""
        from moulin.catalog.replica import ReplicaCatalog

        own, config = locate_replica(str(uri), storage_options, settings)
        store = BasesStore(own, config, base_options)
        catalog = ReplicaCatalog.from_manifests(store, config)
        store.follow(catalog.bases)
        return cls(catalog, store, str(uri), make_spark, make_exporter, make_duck)

    def refresh(self) -> int:
        """The version that reads see from now on. Only a replica has to ask: it follows what was published since.

        >>> lake.refresh() == lake.version
        True
        """
        return self._open_catalog().refresh()

    def write_manifests(self, *tables: str) -> int:
        """Write full manifests of tables as they are now, or of every table and of the lake; returns their version.

        A recovery or a replica begins with the newest full manifests, and reads fewer deltas after this. Manifests are
        written by themselves when chains of deltas grow long; nothing needs this call.

        >>> lake.write_manifests("shop.orders") == lake.version
        True
        """
        return self._open_catalog().write_manifests([self._resolve(name) for name in tables])

    def own_catalog(self) -> Catalog:
        """The catalog itself, for what must be done where it is: clean-up, checks, mirrors, serving."""
        return own_catalog(self._open_catalog())

    @property
    def context(self) -> Context:
        """What the tables of this lake share, made with the first of them."""
        return self._context or self._make_context()

    @property
    def config(self) -> Config:
        return self.catalog.config

    @property
    def version(self) -> int:
        """The newest version of the lake.

        >>> before = lake.version
        >>> _ = lake.create_database("crm")
        >>> lake.version - before
        1
        """
        return self._open_catalog().version()

    # Databases

    def create_database(
        self, name: str, *, properties: Mapping[str, Any] | None = None, if_not_exists: bool = False
    ) -> Database:
        """Make a database. With `if_not_exists`, one that has the name is returned.

        >>> lake.create_database("crm", if_not_exists=True).name
        'crm'
        """
        check_name(name, "database")
        return self._open_catalog().create_database(
            name, check_properties(properties or {}), if_not_exists=if_not_exists
        )

    def databases(self, *, include_dropped: bool = False) -> list[Database]:
        """The databases by name, dropped ones included if asked for.

        >>> [database.name for database in lake.databases()]
        ['shop']
        """
        return self._open_catalog().databases(include_dropped=include_dropped)

    def rename_database(self, name: str, new_name: str) -> Database:
        """Rename a database. Its tables and views stay in it.

        >>> lake.rename_database("shop", "store").name
        'store'
        """
        return self._open_catalog().rename_database(name, check_name(new_name, "database"))

    def preview_drop_database(self, name: str) -> DropPreview:
        """What a drop with `cascade` would take, without doing anything.

        >>> [table.name for table in lake.preview_drop_database("shop").tables]
        ['orders']
        """
        return self._open_catalog().preview_drop_database(name)

    def drop_database(self, name: str, *, cascade: bool = False, immediate: bool = False) -> Database:
        """Drop a database: an empty one, or with `cascade` all that is in it.

        It can be brought back until its grace window ends, unless it is dropped `immediate`ly.

        >>> lake.create_database("scratch").name
        'scratch'
        >>> lake.drop_database("scratch").name
        'scratch'
        >>> lake.resurrect_database("scratch").name
        'scratch'
        """
        return self._open_catalog().drop_database(name, cascade=cascade, immediate=immediate)

    def resurrect_database(self, name: str) -> Database:
        """Bring back a dropped database with everything that was dropped with it, until its grace window ends.

        >>> _ = lake.drop_database("shop", cascade=True)
        >>> _ = lake.resurrect_database("shop")
        >>> lake.table("shop.orders").count()
        1
        """
        return self._open_catalog().resurrect_database(name)

    # Branches

    def branch(
        self,
        name: str,
        *,
        at: int | str | datetime | None = None,
        expires: str | float | timedelta | None = None,
        tables: Sequence[str] | None = None,
    ) -> Lake:
        """Begin a branch: a lake of its own over all tables, or over some, as they are now or were `at` a version.

        No row is copied. What is written to the branch is seen on it alone, until `publish` brings it to main.
        `expires`, seconds or text such as "7d", says when clean-up drops it.

        >>> test = lake.branch("test", expires="7d")
        >>> test.table("shop.orders").append([{"id": 2, "customer": "bob", "amount": 4.0}]).rows_added
        1
        >>> lake.table("shop.orders").count()
        1
        >>> lake.drop_branch("test").name
        'test'
        """
        from moulin.table.branching import seconds_of, version_of

        catalog = self._main_catalog()
        only = None if tables is None else [self._resolve(table) for table in tables]
        if at is None and self.on_branch is None:
            self.flush()  # a branch has what was put before it
        version = None if at is None else version_of(catalog, at)
        catalog.create_branch(name, version=version, expires_in=seconds_of(expires), only=only)
        return self.open_branch(name)

    def open_branch(self, name: str) -> Lake:
        """A branch that exists, as a lake. It ends with this one.

        >>> _ = lake.branch("test")
        >>> lake.open_branch("test").table("shop.orders").count()
        1
        """
        from moulin.catalog.on_branch import branch_catalog

        try:
            catalog = branch_catalog(self._main_catalog(), name)
        except NotFound:
            self._forget_branch(name)
            raise
        with self._lock:
            found = self._branches.get(name)
            if found is None or found._closed:
                makers = self._make_spark, self._make_exporter, self._make_duck
                found = self._branches[name] = Lake(catalog, self.store, with_branch(self.uri, name), *makers)
                found.on_branch = name
            return found

    def _forget_branch(self, name: str) -> None:
        """Let go of a branch that somebody else dropped. What was put and not flushed stays in its logs."""
        with self._lock:
            gone = self._branches.pop(name, None)
        if gone is not None:
            with suppress(MoulinError):
                gone.close()

    def branch_alone(self, name: str) -> Lake:
        """A branch as `moulin.connect` returns it: with it, this lake is closed. A missing one closes it at once."""
        try:
            found = self.open_branch(name)
        except BaseException:
            self.close()
            raise
        found._opened_by = self
        return found

    def branches(self, *, include_dropped: bool = False) -> list[Branch]:
        """The branches of the lake, dropped ones included if asked for.

        >>> _ = lake.branch("test")
        >>> [branch.name for branch in lake.branches()]
        ['test']
        """
        return self._open_catalog().branches(include_dropped=include_dropped)

    def diff(self) -> BranchDiff:
        """What this branch did since it began: tables that came, went, got another name, or have other rows or columns.

        Tables that nobody opened on the branch cost nothing. Rows are counted and read when they are asked for.

        >>> test = lake.branch("test")
        >>> _ = test.table("shop.orders").append([{"id": 1, "customer": "ann", "amount": 9.5}])
        >>> [(table.name, table.kind, table.inserted) for table in test.diff()]
        [('shop.orders', 'changed', 1)]
        >>> _ = lake.drop_branch("test")
        """
        from moulin.table.branch_diff import diff

        if self.on_branch is None:
            raise FailedPrecondition(
                "Main has no beginning to compare with: ask a branch, lake.open_branch(name).diff()."
            )
        self.flush()
        return diff(self.context, self.on_branch)

    def publish(self, name: str, *, dry_run: bool = False) -> Publication:
        """Bring what a branch did to main: one version for all tables, or nothing. Then the branch is dropped.

        Rows, columns, properties, new and dropped tables, names and views come along. Changes of different rows never
        conflict. A row, key, column or name that both sides changed raises Conflict, which names it and both versions,
        and nothing is changed. A `dry_run` raises or returns the same and changes nothing.

        >>> test = lake.branch("test")
        >>> _ = test.table("shop.orders").append([{"id": 7, "customer": "eve", "amount": 1.5}])
        >>> done = lake.publish("test")
        >>> [(table.name, table.inserted) for table in done.tables]
        [('shop.orders', 1)]
        """
        from moulin.table.publishing import publish

        self._open_catalog()
        if self.on_branch is not None:
            raise FailedPrecondition("A branch is published from main: lake.publish(name).")
        branch = self.open_branch(name)
        done = publish(self.context, branch.context, name, dry_run=dry_run)
        if not dry_run:
            self._branches.pop(name, None)
            branch.close()
        return done

    def trial(
        self,
        name: str,
        *,
        at: int | str | datetime | None = None,
        expires: str | float | timedelta | None = "1d",
        tables: Sequence[str] | None = None,
    ) -> Trial:
        """A branch for the time of a `with` block, published at its end if everything holds that was expected of it.

        Else the branch is dropped, and FailedPrecondition names what does not hold. After an exception in the block, or
        a Conflict with main, it is dropped, too. `expires` counts if the process dies within the block.

        >>> with lake.trial("load") as test:
        ...     _ = test.table("shop.orders").append([{"id": 8, "customer": "bob", "amount": 2.0}])
        ...     test.expect("select count(*) > 0 from shop.orders")
        """
        from moulin.table.trial import Trial

        def begin(expected: Expectations) -> Lake:
            branch = self.branch(name, at=at, expires=expires, tables=tables)
            branch._expected = expected
            return branch

        return Trial(name, begin, lambda: self.publish(name), lambda: self.drop_branch(name))

    def expect(self, condition: object, message: str | None = None) -> None:
        """Say what must hold of this trial when its `with` block ends, or it is not published.

        `condition` is a query all of whose values must be true, a function that is called with the branch, or a truth.
        A query runs in DuckDB where that is installed, else in Spark. `message` names it in the error.

        >>> with lake.trial("load") as test:
        ...     test.expect("select min(amount) > 0 from shop.orders", "amounts are positive")
        """
        if self._expected is None:
            raise FailedPrecondition("Only a trial expects something: with lake.trial(name) as branch.")
        self._expected.add(condition, message, self, self._holds)

    def _holds(self, text: str) -> bool:
        """Whether a query gives only true values."""
        from moulin.table.trial import holds

        if self._make_duck is not None and find_spec("duckdb") is not None:
            return holds(self.duckdb().execute(text).fetchall())
        return holds(self.sql(text).collect())

    def drop_branch(self, name: str) -> Branch:
        """Drop a branch with all that was written to it. It can be brought back until its grace window ends.

        >>> _ = lake.branch("test")
        >>> lake.drop_branch("test").name
        'test'
        """
        catalog = self._main_catalog()
        if (opened := self._branches.pop(name, None)) is not None:
            opened.close()  # first: what was put is in storage when the branch comes back
        return catalog.drop_branch(name)

    def resurrect_branch(self, name: str) -> Lake:
        """Bring back a dropped branch, until its grace window ends, and return it as a lake.

        >>> _ = lake.branch("test")
        >>> _ = lake.drop_branch("test")
        >>> lake.resurrect_branch("test").table("shop.orders").count()
        1
        """
        self._main_catalog().resurrect_branch(name)
        return self.open_branch(name)

    # Base paths

    def add_base(self, uri: str | Path, *, name: str) -> BasePath:
        """Register a root beside the lake's own: a folder, or an object store such as s3://archive/lake.

        Files below it can be adopted, and segments moved there. Its storage options are never kept with the lake: they
        are `base_options` of `moulin.connect`, or MOULIN_BASE_OPTIONS in the environment.

        >>> import os
        >>> os.mkdir("archive")
        >>> lake.add_base("./archive", name="archive").name
        'archive'
        """
        catalog = self._open_catalog()
        return catalog.add_base(name, self._bases_store().address(uri, name))

    def bases(self) -> list[BasePath]:
        """The roots beside the lake's own below which data files may lie.

        >>> import os
        >>> os.mkdir("archive")
        >>> _ = lake.add_base("./archive", name="archive")
        >>> [base.name for base in lake.bases()]
        ['archive']
        """
        return self._open_catalog().bases()

    def drop_base(self, name: str) -> BasePath:
        """Forget a root. Refused while a version that is kept has a file below it. No file is deleted.

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
        """Make a table. `schema` is a pyarrow.Schema or (name, type[, nullable]) tuples.

        Rows are kept sorted by `sort_by`, or else by `event_time`, the column that time ranges prune on. A table with a
        `primary_key` is keyed: it has one row per key, is sorted by it, and takes `put` and `get`. With `data`, which
        may be anything that `Table.append` takes, the table comes with its rows; each key may be among them once. With
        `replace`, the table that has the name is dropped. All of it is one version.

        >>> columns = [("ts", "timestamptz", False), ("kind", "string")]
        >>> events = lake.create_table("shop.events", columns, partition_by=["day(ts)"], event_time="ts")
        >>> events.append([{"ts": "2026-01-31T12:00:00Z", "kind": "click"}]).rows_added
        1
        """
        from moulin.table.creation import create, new_table

        if replace and if_not_exists:
            raise InvalidInput("A table that is there is replaced or left alone: choose replace or if_not_exists.")
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
        """Make a table of the rows, columns and settings that another one has now, or `at` a version, tag or time.

        No row is copied: the clone reads the files of its source, which stay as long as it needs them, and what is
        written to either goes into files of its own. With `copy` the rows are written anew; then the source may be a
        table of another lake.

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
        """Make a table of a foreign one where it lies: its files are adopted, and no byte is copied.

        `source` is the folder of an Iceberg table (or a metadata.json), of a Delta table, or a folder of Parquet files,
        whose paths may name values (`day=2026-01-01/`). Its newest version is taken; `format`, "iceberg", "delta" or
        "parquet", is found out when it is not given. Rows of a Lance table are copied. `partition_by` takes the place
        of the partitioning that the source has. With a `primary_key` the table is keyed: each key must be in one row of
        the source. What cannot be read rightly, such as deleted rows in files of their own
        or renamed columns of Delta, is refused.

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
        """A table. One opened `read_only` shows the version of now until its `refresh` is called.

        "shop.orders@test" is the table shop.orders of the branch test.

        >>> lake.table("shop.orders").count()
        1
        """
        database, _ = parse_table_name(name)
        return self._home(database)._table(self._resolve(name), read_only=read_only)

    def tables(self, database: str | None = None, *, include_dropped: bool = False) -> list[TableEntry]:
        """The tables of a database, or of all, with the counts of their newest versions.

        >>> [(table.database, table.name, table.rows) for table in lake.tables()]
        [('shop', 'orders', 1)]
        """
        catalog = self._open_catalog()
        names = [one.name for one in catalog.databases()] if database is None else [database]
        return [table for name in names for table in catalog.tables(name, include_dropped=include_dropped)]

    def rename_table(self, name: str, new_name: str) -> Table:
        """Rename a table, or move it to another database. Its rows, versions and id stay.

        >>> lake.rename_table("shop.orders", "shop.sales").name
        'shop.sales'
        """
        database, new = parse_table_name(new_name)
        renamed = self._open_catalog().rename_table(*parse_table_name(name), database, new)
        return self._home(database)._table(renamed.id)

    def replace_table(self, name: str, replacement: str) -> Table:
        """Give the name of a table to another one of its database and drop the table that had it, in one version.

        The dropped table can be brought back once the name is free. Views and tokens that use it refuse this.

        >>> _ = lake.create_table("shop.new_orders", [("id", "long")])
        >>> lake.replace_table("shop.orders", "shop.new_orders").count()
        0
        """
        database, table = parse_table_name(name)
        other, new = parse_table_name(replacement)
        if other != database:
            raise InvalidInput(f"A table is replaced by one of its own database: {replacement} is not in {database!r}.")
        return self._home(database)._table(self._open_catalog().replace_table(database, table, new).id)

    def drop_table(self, name: str, *, immediate: bool = False) -> TableEntry:
        """Drop a table. It can be brought back until its grace window ends, unless it is dropped `immediate`ly.

        >>> lake.drop_table("shop.orders").name
        'orders'
        >>> lake.resurrect_table("shop.orders").count()
        1
        """
        return self._open_catalog().drop_table(*parse_table_name(name), immediate=immediate)

    def resurrect_table(self, name: str) -> Table:
        """Bring back a dropped table, until its grace window ends.

        >>> _ = lake.drop_table("shop.orders")
        >>> lake.resurrect_table("shop.orders").count()
        1
        """
        database, table = parse_table_name(name)
        return self._home(database)._table(self._open_catalog().resurrect_table(database, table).id)

    # Views

    def create_view(
        self,
        name: str,
        tables: Sequence[str] | None = None,
        *,
        sql: str | None = None,
        dialect: str = SPARK,
        columns: Sequence[str | tuple[str, str | None]] = (),
        description: str | None = None,
        properties: Mapping[str, Any] | None = None,
        replace: bool = False,
        if_not_exists: bool = False,
    ) -> View:
        """Make a view: an ordered union of `tables` of its database, or the query `sql`.

        Spark plans a query before it is stored, and its columns are kept with it. It may name tables and views of the
        lake alone, as database.table. `columns` are other names for its columns, or pairs of a name and a comment.
        With `replace`, the view takes the place of one that has the name; with `if_not_exists`, that one stays.

        >>> _ = lake.create_table("shop.returns", lake.table("shop.orders").schema)
        >>> lake.create_view("shop.moves", ["orders", "returns"]).name
        'moves'
        >>> lake.duckdb().sql("select count(*) from shop.moves").fetchall()
        [(1,)]
        """
        database, view = parse_table_name(name, "view")
        if (tables is None) == (sql is None):
            raise InvalidInput("A view is made of tables= or of sql=: give one of the two.")
        catalog = self._open_catalog()
        if if_not_exists and any(one.name == view for one in catalog.views(database)):
            return catalog.view(database, view)
        if sql is None:
            if columns or properties:
                raise InvalidInput("A union has the columns of its tables and no properties: leave both out.")
            return catalog.create_view(database, view, _members(database, tables or ()), description, replace=replace)
        if dialect != SPARK:
            raise Unsupported(f"Views are written in Spark's SQL, {SPARK!r}, and not in {dialect!r}.")
        named = [(one, None) if isinstance(one, str) else one for one in columns]
        text, schema = self.context.spark().plan_view(database, view, sql, named)
        texts = {str(key): str(value) for key, value in (properties or {}).items()}
        query = ViewQuery((Representation(dialect, text),), schema, texts)
        return catalog.create_view(database, view, [], description, query=query, replace=replace)

    def set_view_properties(self, name: str, updates: Mapping[str, Any], removals: Collection[str] = ()) -> View:
        """Set properties of a view that is a query, and remove some.

        >>> _ = lake.create_view("shop.large", sql="select id from shop.orders where amount > 5")
        >>> lake.set_view_properties("shop.large", {"owner": "ann"}).query.properties["owner"]
        'ann'
        """
        texts = {str(key): str(value) for key, value in updates.items()}
        return self._open_catalog().set_view_properties(*parse_table_name(name, "view"), texts, removals)

    def set_view_tables(self, name: str, tables: Sequence[str]) -> View:
        """Give a view that is a union other tables, in their order.

        >>> _ = lake.create_table("shop.returns", lake.table("shop.orders").schema)
        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> lake.set_view_tables("shop.moves", ["orders", "returns"]).name
        'moves'
        """
        database, view = parse_table_name(name)
        return self._open_catalog().set_view_members(database, view, _members(database, tables))

    def view(self, name: str) -> View:
        """A view by its name.

        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> lake.view("shop.moves").name
        'moves'
        """
        return self._open_catalog().view(*parse_table_name(name))

    def views(self, database: str, *, include_dropped: bool = False) -> list[View]:
        """The views of a database, dropped ones included if asked for.

        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> [view.name for view in lake.views("shop")]
        ['moves']
        """
        return self._open_catalog().views(database, include_dropped=include_dropped)

    def rename_view(self, name: str, new_name: str) -> View:
        """Rename a view. One that is a query may move to another database.

        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> lake.rename_view("shop.moves", "shop.all_moves").name
        'all_moves'
        """
        database, view = parse_table_name(name)
        new_database, new = parse_table_name(new_name)
        return self._open_catalog().rename_view(database, view, new, new_database)

    def drop_view(self, name: str) -> View:
        """Drop a view. It can be brought back until its grace window ends.

        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> lake.drop_view("shop.moves").name
        'moves'
        """
        return self._open_catalog().drop_view(*parse_table_name(name))

    def resurrect_view(self, name: str) -> View:
        """Bring back a dropped view.

        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> _ = lake.drop_view("shop.moves")
        >>> lake.resurrect_view("shop.moves").name
        'moves'
        """
        return self._open_catalog().resurrect_view(*parse_table_name(name))

    @property
    def tokens(self) -> TokenBackend:
        """Ingest tokens.

        >>> [token.name for token in lake.tokens.tokens("shop")]
        []
        """
        return self._open_catalog().ingest

    # All of it

    def transaction(self) -> Transaction:
        """Changes of several tables as one version.

        >>> _ = lake.create_table("shop.log", [("what", "string")])
        >>> with lake.transaction() as tx:
        ...     _ = tx.table("shop.orders").delete_where("id = 1")
        ...     _ = tx.table("shop.log").append([{"what": "order 1 was deleted"}])
        >>> lake.table("shop.orders").version == lake.table("shop.log").version
        True
        """
        if self.read_only:
            raise FailedPrecondition(f"The lake in {self.store.uri} was opened read-only: write through its catalog.")
        self._open_catalog()
        from moulin.table.transaction import Transaction

        return Transaction(self.context, self._resolve)

    def sql(
        self,
        text: str,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        fresh: bool = True,
        safe: bool = False,
    ) -> DataFrame:
        """Run a statement in Spark SQL over the tables and views of the lake, and return its result as a DataFrame.

        A query returns its rows. INSERT, UPDATE, DELETE, MERGE and TRUNCATE run at once, are one version each, and
        return one row with the number of rows that they changed.

        `database.table` and `moulin.database.table` name tables of the lake, and mean what they would mean in Spark.
        Names of one part are Spark's temporary views. `args` are the values of parameters: a dict for `:name`, a list
        for `?`. With `fresh`, the result includes records that were acknowledged but not yet committed.

        With `safe`, the text may come from someone who is trusted with the tables of the lake and with nothing else:
        it names lake tables alone, and cannot run programs or see files, views, settings or the environment. What is
        not known to be harmless raises PermissionDenied. How long it runs and how much it returns is not limited.

        >>> lake.sql("select customer, amount * 2 as twice from shop.orders where id = :id", {"id": 1}).collect()
        [Row(customer='ann', twice=19.0)]
        >>> lake.sql("update shop.orders set amount = 10 where id = 1").first()["num_updated_rows"]
        1
        """
        self._open_catalog()
        return self.context.spark().sql(text, args, fresh=fresh, safe=safe)

    def spark(self) -> SparkSession:
        """The Spark session with the lake attached: `spark.sql`, `spark.table` and writers know the lake's tables.

        What was put so far is committed first, so that Spark sees it.

        >>> spark = lake.spark()
        >>> spark.table("shop.orders").count()
        1
        """
        self._open_catalog()
        session = self.context.spark().attached()
        self._flush()
        return session

    def duckdb(
        self, connection: DuckDBPyConnection | None = None, *, branches: Collection[str] = ()
    ) -> DuckDBPyConnection:
        """A DuckDB connection in which every table and view of the lake is a view, `database.table`: SQL without Java.

        It shows the version of this call, with what was put so far, until `lake.duckdb(connection)` brings it to the
        newest one. `moulin_table('shop.orders', version := 12)` is a table as it was, and so is `as_of := '2026-01-31
        12:00'`. A statement opens the files that the catalog says may match its constants; after `SET VARIABLE
        moulin_pruning = false`, all. The connection changes no table of the lake; what it creates is its own. It keeps
        the versions that it shows from clean-up, and ends with the lake. Tables of `branches` are there as
        "shop@exp".orders, and moulin_table('shop.orders@exp') is one of any branch. Its SQL may read files and call
        home as this process may: do not run what a stranger wrote. Needs the extra `duckdb`.

        >>> lake.duckdb().sql("select customer, amount from shop.orders").fetchall()
        [('ann', 9.5)]
        """
        self._open_catalog()
        with self._lock:
            if self._duck is None:
                if self._make_duck is None:
                    raise FailedPrecondition("This lake was opened without DuckDB; open it with moulin.connect.")
                self._duck = self._make_duck(self)
        return self._duck.connect(connection, branches)

    def attach(self, spark: SparkSession) -> SparkSession:
        """The same Spark session as one that knows the tables of this lake; the session that was given stays as it is.

        `spark.sql`, `spark.table`, `spark.read.table` and `spark.catalog` find `database.table` in the lake when it has
        the database, and writers of DataFrames that came from this session (`writeTo`, `saveAsTable`, `insertInto`)
        write there. All other names are Spark's own.

        >>> from pyspark.sql import SparkSession
        >>> spark = lake.attach(SparkSession.getActiveSession())
        >>> spark.sql("select sum(amount) as total from shop.orders").first()["total"]
        9.5
        """
        self._open_catalog()
        return self.context.spark().attached(spark)

    def engine(self) -> Spark:
        """Deprecated: use `sql` and `spark`."""
        warn_renamed("Lake.engine()", "Lake.spark() and Lake.sql()")
        self._open_catalog()
        return self.context.spark()

    def flush(self) -> None:
        """Commit what was put into keyed tables and what others left in their logs, so that other engines see it.

        A table that cannot be flushed stops no other: all are flushed, and then the first error is raised.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> users.put({"name": "ann", "age": 41})
        >>> lake.flush()
        >>> users.at(version=lake.version).get("ann")
        {'name': 'ann', 'age': 41}
        """
        for error in self._flush().values():
            raise error

    def _flush(self) -> Mapping[UUID, Exception]:
        catalog = self._open_catalog()
        if self._context is None and not (catalog.may_write and catalog.claimed_tables()):
            return {}  # nothing was put from here, and others left nothing
        from moulin.table.keyed.tables import flush_keyed

        return flush_keyed(self.context)

    def close(self) -> None:
        """Flush keyed tables, publish what waits and let go of the catalog. The Spark session, if any, goes on.

        >>> lake.close()
        >>> lake.version
        Traceback (most recent call last):
        moulin.errors.Closed: The lake was closed; connect again.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            for branch in list(self._branches.values()):
                branch.close()
            if self._duck is not None:
                self._duck.close()
            if self._context is not None:
                self._context.close()
                if isinstance(self.store, BasesStore) and self.on_branch is None:
                    self.store.known()  # tasks of Spark may be made of it after this
        finally:
            self.catalog.close()
            if self._opened_by is not None:
                self._opened_by.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Lake({self.store.uri if self.on_branch is None else with_branch(self.store.uri, self.on_branch)!r})"

    def _repr_html_(self) -> str:
        """Its tables, for notebooks."""
        from moulin.notebook import MOST_ROWS, html_table

        if self._closed:
            return html_table(f"{self!r}, closed", ["table"], [])
        tables = self.tables()
        rows = [(f"{one.database}.{one.name}", one.rows, one.segments, one.bytes) for one in tables[:MOST_ROWS]]
        caption = f"{self!r} at version {self.version}"
        return html_table(caption, ["table", "rows", "segments", "bytes"], rows, more=len(tables) - len(rows))

    def _open_catalog(self) -> CatalogBackend:
        if self._closed:
            raise Closed("The lake was closed; connect again.")
        return self.catalog

    def _main_catalog(self) -> CatalogBackend:
        """The catalog, for what only main does."""
        if self.on_branch is not None:
            raise FailedPrecondition(
                f"This lake is the branch {self.on_branch!r}: make, open and drop branches on the lake itself."
            )
        return self._open_catalog()

    def _make_context(self) -> Context:
        from moulin.table.context import Context

        with self._lock:
            if self._context is None:
                self._context = Context(
                    self._open_catalog(),
                    self.store,
                    None if self._make_spark is None else partial(self._make_spark, self),
                    None if self._make_exporter is None else self._make_exporter(self),
                )
            return self._context

    def _home(self, database: str) -> Lake:
        """The lake that holds the tables of a database in this process: this one, or the branch that it names."""
        _, at, branch = database.rpartition(AT)
        return self.open_branch(branch) if at and self.on_branch is None else self

    def _resolve(self, name: str) -> UUID:
        return self._open_catalog().table(*parse_table_name(name)).id

    def _table(self, table_id: UUID, *, read_only: bool = False) -> Table:
        from moulin.table.table import Table

        only_read = read_only or self.read_only
        return Table(self.context, table_id, read_only=only_read, follow=self.refresh, branch=self._branch_table)

    def _branch_table(self, table: Table, name: str, **options: Any) -> Table:
        """A table on a branch of its own; see `Table.branch`."""
        full_name = self.catalog.table_by_id(table.id).full_name
        return self.branch(name, tables=[full_name], **options).table(full_name)


def locate(
    uri: str, storage: str | None, options: Mapping[str, str] | None, settings: Mapping[str, Any] | None
) -> tuple[str, Store, Config]:
    """Catalog address, storage and configuration for what `moulin.connect` was given."""
    if uri.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
        if storage is None:
            raise InvalidInput("A lake on PostgreSQL needs storage=, a folder or an object store for its files.")
        config = load_config(**settings or {})
        return uri.replace("postgres://", "postgresql://", 1), open_cached(storage, options, config), config
    if "://" in uri and not uri.startswith("file://"):
        raise InvalidInput(
            f"{uri.split('://')[0]}:// is not a lake's address; use a folder, or postgresql:// with storage=."
        )
    folder = open_store(uri)
    catalog_file = folder.local_path(paths.catalog_file())
    assert catalog_file is not None
    config = load_config(catalog_file.parent, **settings or {})
    return f"sqlite:///{catalog_file}", open_cached(storage, options, config) if storage else folder, config


def locate_replica(
    uri: str, options: Mapping[str, str] | None, settings: Mapping[str, Any] | None
) -> tuple[Store, Config]:
    """Storage, never written to, and configuration of a lake that is read from its manifests."""
    if uri.startswith(("postgresql://", "postgres://", "postgresql+psycopg://", "grpc://")):
        raise InvalidInput(
            "A read-only lake is opened by the address of its storage; with its catalog at hand, open the lake and "
            "then table(name, read_only=True)."
        )
    remote = "://" in uri and not uri.startswith("file://")
    marker = None if remote else open_store(uri, options, create=False).local_path(paths.marker())
    config = load_config(marker.parent if marker else None, **settings or {})
    return with_cache(ReadOnlyStore(open_store(uri, options, create=False)), config), config


def _members(database: str, tables: Sequence[str]) -> list[str]:
    """Bare names of member tables; a name may be given with its database, if that is the view's own."""
    names = []
    for table in tables:
        owner, _, name = table.rpartition(".")
        if owner not in ("", database):
            raise InvalidInput(f"A view unites tables of its own database: {table} is not in {database!r}.")
        names.append(name)
    return names
