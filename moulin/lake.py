"""Lake: the front door, thin."""

# Decisions: docs/decisions/0208

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from moulin.catalog.backend import CatalogBackend, TokenBackend
from moulin.catalog.catalog import Catalog, own_catalog
from moulin.catalog.objects.tables import NewTable
from moulin.catalog.sql.clock import Clock
from moulin.config import Config, load_config
from moulin.deprecation import warn_renamed
from moulin.errors import AlreadyExists, Closed, FailedPrecondition, InvalidInput
from moulin.model.entities import Database, DropPreview, TableEntry, View
from moulin.model.key.key import with_key
from moulin.model.key.region import RegionSpec
from moulin.model.layout.event_time import event_time_id
from moulin.model.layout.partition import parse_spec
from moulin.model.layout.sort import parse_sort
from moulin.model.names import check_name, parse_table_name
from moulin.model.schema.schema import make_schema
from moulin.storage import paths
from moulin.storage.cache import open_cached, with_cache
from moulin.storage.read_only import ReadOnlyStore
from moulin.storage.store import Store, open_store
from moulin.table.properties import check_properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from moulin.table.context import Context
    from moulin.table.ports import Exporter, Spark
    from moulin.table.table import Table
    from moulin.table.transaction import Transaction


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
    ) -> None:
        self.uri = uri
        self.read_only = catalog.is_replica
        self.store = store
        self.catalog = catalog
        self._make_spark = make_spark
        self._make_exporter = make_exporter
        self._closed = False
        self._context: Context | None = None
        self._lock = threading.Lock()  # for `_closed` and `_context`

    @classmethod
    def open(
        cls,
        uri: str | Path,
        *,
        storage: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        make_spark: Callable[[Lake], Spark] | None = None,
        make_exporter: Callable[[Lake], Exporter] | None = None,
    ) -> Lake:
        """Open a lake; see `moulin.connect`."""
        catalog_uri, store, config = locate(str(uri), storage, storage_options, settings)
        return cls(Catalog.open(catalog_uri, store, config, clock=clock), store, str(uri), make_spark, make_exporter)

    @classmethod
    def open_replica(
        cls,
        uri: str | Path,
        *,
        storage_options: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        make_spark: Callable[[Lake], Spark] | None = None,
        make_exporter: Callable[[Lake], Exporter] | None = None,
    ) -> Lake:
        """A read-only lake from the manifests in storage alone; see `moulin.connect`."""
        from moulin.catalog.replica import ReplicaCatalog

        store, config = locate_replica(str(uri), storage_options, settings)
        return cls(ReplicaCatalog.from_manifests(store, config), store, str(uri), make_spark, make_exporter)

    def refresh(self) -> int:
        """The version that reads see from now on. Only a replica has to ask: it follows what was published since."""
        return self._open_catalog().refresh()

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
        """The newest version of the lake."""
        return self._open_catalog().version()

    # Databases

    def create_database(
        self, name: str, *, properties: Mapping[str, Any] | None = None, if_not_exists: bool = False
    ) -> Database:
        check_name(name, "database")
        return self._open_catalog().create_database(
            name, check_properties(properties or {}), if_not_exists=if_not_exists
        )

    def databases(self, *, include_dropped: bool = False) -> list[Database]:
        return self._open_catalog().databases(include_dropped=include_dropped)

    def rename_database(self, name: str, new_name: str) -> Database:
        return self._open_catalog().rename_database(name, check_name(new_name, "database"))

    def preview_drop_database(self, name: str) -> DropPreview:
        """What a drop with `cascade` would take, without doing anything."""
        return self._open_catalog().preview_drop_database(name)

    def drop_database(self, name: str, cascade: bool = False, immediate: bool = False) -> Database:
        return self._open_catalog().drop_database(name, cascade=cascade, immediate=immediate)

    def resurrect_database(self, name: str) -> Database:
        return self._open_catalog().resurrect_database(name)

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
        if_not_exists: bool = False,
    ) -> Table:
        """Make a table. `schema` is a pyarrow.Schema or (name, type[, nullable]) tuples.

        Rows are kept sorted by `sort_by`, or else by `event_time`, the column that time ranges prune on. A table with a
        `primary_key` is keyed: it has one row per key, is sorted by it, and takes `put` and `get`.
        """
        database, table = parse_table_name(name)
        made = make_schema(schema)
        if primary_key:
            made = with_key(made, primary_key)
            if sort_by and list(sort_by) != list(primary_key):
                raise InvalidInput("A keyed table is sorted by its key: leave sort_by out.")
            sort_by = primary_key
        time_field = event_time_id(made, event_time) if event_time else None
        order = list(sort_by) or ([event_time] if event_time else [])
        spec, last_partition_id = parse_spec(list(partition_by), made)
        new = NewTable(
            made,
            made.highest_field_id,
            spec,
            last_partition_id,
            parse_sort(order, made),
            time_field,
            check_properties(properties or {}),
        )
        RegionSpec.of(made, new.properties)
        try:
            state = self._open_catalog().create_table(database, table, new)
        except AlreadyExists:
            if not if_not_exists:
                raise
            return self.table(name)
        return self._table(state.id)

    def table(self, name: str, read_only: bool = False) -> Table:
        """A table. One opened `read_only` shows the version of now until its `refresh` is called."""
        return self._table(self._resolve(name), read_only=read_only)

    def tables(self, database: str, *, include_dropped: bool = False) -> list[TableEntry]:
        return self._open_catalog().tables(database, include_dropped=include_dropped)

    def rename_table(self, name: str, new_name: str) -> Table:
        database, new = parse_table_name(new_name)
        return self._table(self._open_catalog().rename_table(*parse_table_name(name), database, new).id)

    def drop_table(self, name: str, immediate: bool = False) -> TableEntry:
        return self._open_catalog().drop_table(*parse_table_name(name), immediate=immediate)

    def resurrect_table(self, name: str) -> Table:
        return self._table(self._open_catalog().resurrect_table(*parse_table_name(name)).id)

    # Views

    def create_view(self, name: str, tables: Sequence[str], *, description: str | None = None) -> View:
        """An ordered union of tables of the view's database."""
        database, view = parse_table_name(name)
        return self._open_catalog().create_view(database, view, _members(database, tables), description)

    def set_view_tables(self, name: str, tables: Sequence[str]) -> View:
        database, view = parse_table_name(name)
        return self._open_catalog().set_view_members(database, view, _members(database, tables))

    def view(self, name: str) -> View:
        return self._open_catalog().view(*parse_table_name(name))

    def views(self, database: str, *, include_dropped: bool = False) -> list[View]:
        return self._open_catalog().views(database, include_dropped=include_dropped)

    def rename_view(self, name: str, new_name: str) -> View:
        database, view = parse_table_name(name)
        new_database, new = parse_table_name(new_name)
        if new_database != database:
            raise InvalidInput("A view unites tables of its own database and cannot move to another.")
        return self._open_catalog().rename_view(database, view, new)

    def drop_view(self, name: str) -> View:
        return self._open_catalog().drop_view(*parse_table_name(name))

    def resurrect_view(self, name: str) -> View:
        return self._open_catalog().resurrect_view(*parse_table_name(name))

    @property
    def tokens(self) -> TokenBackend:
        """Ingest tokens."""
        return self._open_catalog().ingest

    # All of it

    def transaction(self) -> Transaction:
        """Changes of several tables as one version."""
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
        """
        self._open_catalog()
        return self.context.spark().sql(text, args, fresh=fresh, safe=safe)

    def spark(self) -> SparkSession:
        """The Spark session with the lake attached. What was put so far is committed first, so that Spark sees it."""
        self._open_catalog()
        session = self.context.spark().session()
        self._flush()
        return session

    def engine(self) -> Spark:
        """Deprecated: use `sql` and `spark`."""
        warn_renamed("Lake.engine()", "Lake.spark() and Lake.sql()")
        self._open_catalog()
        return self.context.spark()

    def flush(self) -> None:
        """Commit what was put into keyed tables and what others left in their logs, so that other engines see it.

        A table that cannot be flushed stops no other: all are flushed, and then the first error is raised.
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
        """Flush keyed tables, publish what waits and let go of the catalog. The Spark session, if any, goes on."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            if self._context is not None:
                self._context.close()
        finally:
            self.catalog.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Lake({self.store.uri!r})"

    def _open_catalog(self) -> CatalogBackend:
        if self._closed:
            raise Closed("The lake was closed; connect again.")
        return self.catalog

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

    def _resolve(self, name: str) -> UUID:
        return self._open_catalog().table(*parse_table_name(name)).id

    def _table(self, table_id: UUID, *, read_only: bool = False) -> Table:
        from moulin.table.table import Table

        return Table(self.context, table_id, read_only=read_only or self.read_only, follow=self.refresh)


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
