"""The names of tables and views in a statement, resolved to frames of their rows at one version of the lake."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from uuid import UUID

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from moulin.errors import InvalidInput, NotFound, PermissionDenied
from moulin.lake import Lake
from moulin.model.entities import View
from moulin.model.names import AT, full_name, on_branch
from moulin.model.view_history import beside
from moulin.pipeline.read.feed import feed_frame
from moulin.pipeline.read.fresh import Fresh
from moulin.pipeline.read.metadata import WITH_ADDRESSES, metadata_of
from moulin.pipeline.read.reader import NamedFrame
from moulin.pipeline.sql.catalyst import Catalyst, position, refusal
from moulin.pipeline.sql.names import Query, Reference, spelled
from moulin.pipeline.sql.safe import SafeSql
from moulin.pipeline.sql.tables import Tables, readable
from moulin.pipeline.sql.views import read_view
from moulin.table.keyed.tables import flush_keyed

_UNFLUSHED: ContextVar[Mapping[UUID, Exception]] = ContextVar("unflushed", default=MappingProxyType({}))
_FILES = (
    "Spark describes the files of a table that it reads in one scan; after deletes or changes of columns it may take "
    "several. Select _segment and _position instead, and the files from database.table.files."
)
_SESSION = "session"  # Spark's name for the database of temporary views; a database of the lake goes before it


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Spark's refusal to understand a query as one sentence."""
    try:
        yield
    except (AnalysisException, ParseException) as error:
        reason = refusal(error)
        if "`_metadata`" in reason:
            reason += f". {_FILES}"
        elif "REQUIRES_SINGLE_PART_NAMESPACE" in reason:
            reason += ". A database of several levels stands between backquotes: `a.b`.orders"
        line, column = position(error)
        raise InvalidInput(f"{what}: {reason}", line=line, column=column) from None


@contextmanager
def unflushed(failures: Mapping[UUID, Exception]) -> Iterator[None]:
    """Tables whose rows could not be committed are refused here, unless a version of them is asked for."""
    token = _UNFLUSHED.set(failures)
    try:
        yield
    finally:
        _UNFLUSHED.reset(token)


def flush(lake: Lake, branches: Collection[str] = ()) -> None:
    """Commit what was put into keyed tables, on some branches too. REQUIRES: within `unflushed`."""
    _UNFLUSHED.set(flush_all(lake, branches))


def flush_all(lake: Lake, branches: Collection[str] = ()) -> Mapping[UUID, Exception]:
    """Commit what was put into keyed tables of a lake, and of some branches of it; returns the errors by table."""
    failures = dict(flush_keyed(lake.context))
    for name in branches if lake.on_branch is None else ():
        with suppress(NotFound):  # a query of its tables gets the error
            failures.update(flush_keyed(lake.open_branch(name).context))
    return failures


def branches_of(databases: Iterable[str]) -> set[str]:
    """The branches that names of databases are on."""
    return {database.rpartition(AT)[2] for database in databases if AT in database}


class Resolver:
    """Resolves names in one session. Thread-safe."""

    def __init__(
        self, lake: Lake, spark: SparkSession, tables: Tables, catalyst: Catalyst, guard: Callable[[], SafeSql]
    ) -> None:
        """`catalyst` is for the texts of views in ordinary queries, `guard` checks them."""
        self._lake, self._spark, self._tables = lake, spark, tables
        self._catalyst, self._guard = catalyst, guard

    def has_database(self, name: str) -> bool:
        """Whether the lake has it, in this or, where the session does not care, in another case."""
        known = databases_like(self._lake, name)
        if name in known or self.case_sensitive:
            return name in known
        return any(one.lower() == name.lower() for one in known)

    def all_of(
        self, query: Query, version: int, lane: Fresh | None, guard: SafeSql | None, *, foreign: bool
    ) -> dict[Reference, NamedFrame]:
        """The rows that a query reads: those that were placed in the guard's session, and those of lake tables."""
        placed = {} if guard is None else guard.frames_of(query.references)
        missing = [reference for reference in query.references if reference not in placed]
        if foreign:
            missing = [reference for reference in missing if self.has_database(reference.database)]
        lake_only, hidden = guard is not None, query.asks_hidden
        return placed | self.named(missing, version, lane, lake_only=lake_only, hidden=hidden)

    def named(
        self, references: Sequence[Reference], version: int, lane: Fresh | None, *, lake_only: bool, hidden: bool
    ) -> dict[Reference, NamedFrame]:
        """The rows of lake tables and views that a query reads, at a version; with the `hidden` columns of tables."""
        frames = {}
        for reference in references:
            if reference.is_target:
                continue
            if lake_only and reference.part in WITH_ADDRESSES:
                raise PermissionDenied(f"A safe query cannot see the addresses of files: remove .{reference.part}.")
            try:
                with readable(full_name(reference.database, reference.name)):
                    frames[reference] = self._resolve(reference, version, lane, hidden=hidden)
            except NotFound:
                if lake_only or reference.database.lower() != _SESSION:
                    raise
        return frames

    def _resolve(self, reference: Reference, version: int, lane: Fresh | None, *, hidden: bool) -> NamedFrame:
        if reference.version is not None:
            version, lane = reference.version, None
        elif reference.timestamp_ns is not None:
            version, lane = self._lake.catalog.version_at(reference.timestamp_ns), None
        try:
            return self._found(reference, version, lane, hidden=hidden)
        except NotFound:
            as_spelled = self.as_spelled(reference)
            if as_spelled is None:
                raise
        return self._found(as_spelled, version, lane, hidden=hidden)

    def _found(self, reference: Reference, version: int, lane: Fresh | None, *, hidden: bool) -> NamedFrame:
        """The table or view of exactly this name."""
        catalog = self._lake.catalog
        if reference.part is not None or reference.since is not None:
            return self._told(reference, version)
        try:
            state = catalog.table(reference.database, reference.name, version)
            _check_flushed(reference, state.id)
            return self._tables.table(state, lane, hidden=hidden)
        except NotFound as missing:
            try:
                view = catalog.view(reference.database, reference.name)
            except NotFound:
                raise missing from None
        if view.query is not None:
            return self._queried(view, reference, version, lane)
        for member in view.members:
            _check_flushed(reference, member.id)
        members = [self._tables.table(catalog.table_by_id(member.id, version), lane).frame for member in view.members]
        with refusing(f"View {full_name(reference.database, reference.name)} unites columns that do not go together"):
            return NamedFrame(reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), members))

    def _told(self, reference: Reference, version: int) -> NamedFrame:
        """Metadata of a table, or its changes."""
        state = self._lake.catalog.table(reference.database, reference.name, version)
        if reference.part is not None:
            return NamedFrame(self._spark.createDataFrame(metadata_of(self._lake, state, reference.part)))
        assert reference.since is not None
        _check_flushed(reference, state.id)
        state = self._lake.catalog.state_until(state.id, reference.since, version)
        for held in {reference.since, version}:
            self._tables.hold(state, held)
        return NamedFrame(feed_frame(self._spark, self._lake, state, reference.since))

    def _queried(self, view: View, reference: Reference, version: int, lane: Fresh | None) -> NamedFrame:
        """The rows of a view that is a query. `version as of` of the view is that of the tables in it."""
        is_now = reference.version is None and reference.timestamp_ns is None

        def frames(named: Sequence[Reference]) -> dict[Reference, NamedFrame]:
            plain = {one: one.version is None and one.timestamp_ns is None and not is_now for one in named}
            asked = {one: replace(one, version=version) if plain[one] else one for one in named}
            asked = {one: beside_view(view.database, found) for one, found in asked.items()}
            found = self.named(list(asked.values()), version, lane, lake_only=True, hidden=False)
            return {one: found[asked[one]] for one in named}

        return read_view(view, self._catalyst, self._guard(), frames)

    def as_spelled(self, reference: Reference) -> Reference | None:
        """The reference as the lake writes it, when it differs in case, and case makes no difference in the session."""
        catalog = self._lake.catalog
        if self.case_sensitive:
            return None
        database = spelled(reference.database, databases_like(self._lake, reference.database))
        if database is None:
            return None
        known = [*(table.name for table in catalog.tables(database)), *(view.name for view in catalog.views(database))]
        name = spelled(reference.name, known)
        if name is None or (database, name) == (reference.database, reference.name):
            return None
        return replace(reference, database=database, name=name)

    @property
    def case_sensitive(self) -> bool:
        return self._spark.conf.get("spark.sql.caseSensitive") == "true"


def beside_view(database: str, reference: Reference) -> Reference:
    """A reference in the text of a view of `database`."""
    return replace(reference, database=beside(database, reference.database))


def databases_like(lake: Lake, written: str) -> list[str]:
    """The names of the databases that a written name may mean: those of the lake, or of the branch that it names."""
    branch = written.rpartition(AT)[2] if AT in written else None
    if branch is None:
        return [database.name for database in lake.catalog.databases()]
    if lake.on_branch is None:
        return [database.name for database in lake.catalog.databases(branch=branch)]
    return [on_branch(database.name, branch) for database in lake.databases()] if branch == lake.on_branch else []


def _check_flushed(reference: Reference, table_id: UUID) -> None:
    """Raise why rows of a table that a query reads as it is now could not be committed first."""
    error = _UNFLUSHED.get().get(table_id)
    if error is not None and reference.version is None and reference.timestamp_ns is None:
        raise error
