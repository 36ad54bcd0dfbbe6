"""Spark for one lake: the session, SQL over its tables, DataFrames out and in, and a runner of slices."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from uuid import UUID

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from moulin.errors import Closed, Corrupt, InvalidInput, NotFound, PermissionDenied
from moulin.lake import Lake
from moulin.model.entities import TableState, View
from moulin.model.predicate import Predicate
from moulin.model.rows.rows import RowsOf
from moulin.model.schema.values import Schema
from moulin.pipeline.attached.session import AttachedSession
from moulin.pipeline.read.feed import feed_frame
from moulin.pipeline.read.few import few_rows
from moulin.pipeline.read.fresh import Fresh, FreshLane
from moulin.pipeline.read.hidden import hidden_of
from moulin.pipeline.read.metadata import WITH_ADDRESSES, metadata_of
from moulin.pipeline.read.reader import NamedFrame, TableReader
from moulin.pipeline.runner import SparkRunner
from moulin.pipeline.session import activate, adopt, safe_environment, spark_session
from moulin.pipeline.sql.catalyst import Arguments, Catalyst, LogicalPlan, refusal
from moulin.pipeline.sql.hints import Known, predicate_of
from moulin.pipeline.sql.names import Query, Reference, databases_in, reference_of, spelled
from moulin.pipeline.sql.safe import SafeSql
from moulin.pipeline.sql.sql import check_is_statement
from moulin.pipeline.sql.views import plan_view, read_view, within
from moulin.pipeline.statements.answer import Answer
from moulin.pipeline.statements.statements import HARMLESS, STATEMENTS, parse
from moulin.pipeline.write.backfill import backfill
from moulin.pipeline.write.writer import FrameJob, frame_arrow_schema
from moulin.table.edit.edits import PLACE
from moulin.table.keyed.tables import flush_keyed
from moulin.table.pins import Hold
from moulin.table.ports import Backfilled, BatchLoaded, FrameKernel, P, R
from moulin.table.table import Table

_HOLDS: ContextVar[list[Hold]] = ContextVar("holds")
_UNFLUSHED: ContextVar[Mapping[UUID, Exception]] = ContextVar("unflushed", default=MappingProxyType({}))
_IN_STATEMENT: ContextVar[bool] = ContextVar("in_statement", default=False)
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_SESSION = "session"  # Spark's name for the database of temporary views; a database of the lake goes before it


class LakeSpark:
    """Fills `moulin.table.ports.Spark`. Thread-safe.

    `spark` is a session, a master's address, or None for the session that runs already, else a local one. The session
    starts when it is first needed and outlives this object.
    """

    def __init__(self, lake: Lake, spark: SparkSession | str | None = None) -> None:
        self._lake = lake
        self._given = spark
        self._reader: TableReader | None = None
        self._lane: FreshLane | None = None
        self._catalyst: Catalyst | None = None
        self._safe: SafeSql | None = None
        self._spark: SparkSession | None = None
        self._attached: AttachedSession | None = None
        self._others: list[LakeSpark] = []  # for other sessions that the lake is attached to
        self._lock = threading.Lock()
        self._closed = False

    def session(self) -> SparkSession:
        """The Spark session, started when there is none, and active in this thread if no other is."""
        spark = self._open(safe=False)
        activate(spark)
        return spark

    def _open(self, safe: bool) -> SparkSession:
        """The session. One that is started for a safe query has an environment without secrets."""
        with self._lock:
            if self._closed:
                raise Closed("The lake was closed; connect again.")
            if self._spark is None:
                self._spark = _start(self._given, safe_environment() if safe else None)
                self._reader = TableReader(self._spark, self._lake.context)
                self._lane = FreshLane(self._spark, self._lake)
                self._catalyst = Catalyst(self._spark)
            return self._spark

    def sql(self, text: str, args: Arguments | None = None, *, fresh: bool = True, safe: bool = False) -> DataFrame:
        """Run a query; all tables in it are seen at one version of the lake, unless it says `version as of`.

        With `fresh`, also what collectors acknowledged and no version has yet. With `safe`, see pipeline/sql/safe.py.
        """
        check_is_statement(text)
        self._open(safe)
        return self.run(text, args, self._guard() if safe else None, fresh=fresh, changes=not safe)

    def run(
        self,
        text: str,
        args: Arguments | None,
        guard: SafeSql | None,
        *,
        fresh: bool = True,
        changes: bool,
        foreign: bool = False,
    ) -> DataFrame:
        """Run a statement, checked by a guard if one is given; without `changes`, statements that change are refused.

        With `foreign`, tables in databases that the lake does not have are left to Spark. REQUIRES: the session has
        started.
        """
        assert self._catalyst is not None
        catalyst = self._catalyst if guard is None else guard.catalyst
        with _refusing("Spark refuses the statement"):
            plan = parse(catalyst if guard is None else guard, text, args)
            if plan.nodeName() == "UnresolvedWith":
                plan = catalyst.opened_actively(plan)
        if plan.nodeName() not in STATEMENTS:
            return self._query(plan, guard, fresh=fresh, foreign=foreign)
        if not changes and plan.nodeName() not in HARMLESS:
            raise PermissionDenied("A safe query changes nothing: ask for rows.")
        return self.change(plan, guard, foreign=foreign)

    def change(self, plan: LogicalPlan, guard: SafeSql | None, *, foreign: bool = False) -> DataFrame:
        """Run a statement of `STATEMENTS` that was planned already. REQUIRES: its caller may change tables."""
        catalyst = self._catalyst if guard is None else guard.catalyst
        assert catalyst is not None
        run = STATEMENTS[plan.nodeName()]
        if guard is not None and hasattr(plan, "toJSON"):
            guard.check_statement(plan)
        with _refusing("Spark refuses the statement"), self._holding() as holds:
            tokens = _UNFLUSHED.set({}), _IN_STATEMENT.set(True)
            try:
                return self._answered(run(_Session(self, catalyst, guard, foreign), plan))
            finally:
                _UNFLUSHED.reset(tokens[0])
                _IN_STATEMENT.reset(tokens[1])
                for hold in holds:
                    hold.release()

    def guard(self) -> SafeSql:
        """A Spark session for safe queries that nobody else has; the lake's own is started when there is none."""
        return SafeSql(self._open(safe=True))

    def query(self, plan: LogicalPlan, guard: SafeSql) -> DataFrame:
        """The rows of a query that somebody else planned in the session of this guard."""
        return self._query(plan, guard, fresh=True)

    def attached(self, session: SparkSession | None = None) -> SparkSession:
        """A session, by default the lake's own, that knows the tables of the lake."""
        own = self.session()
        if session is not None and session.sparkContext is not own.sparkContext:
            raise InvalidInput("The lake has another Spark application: connect with spark=session.")
        found = own if session is None else adopt(session)
        if not found._jsparkSession.equals(own._jsparkSession):
            other = LakeSpark(self._lake, found)
            other.session()
            with self._lock:
                self._others.append(other)
            return AttachedSession.of(found, other)
        if self._attached is None:
            self._attached = AttachedSession.of(own, self)
        return self._attached

    @property
    def lake(self) -> Lake:
        return self._lake

    def names_lake(self, text: str, args: Arguments | None = None) -> bool:
        """Whether a statement names a database of the lake, or is one of ours that Spark cannot parse."""
        if self._closed:
            return False
        self.session()
        assert self._catalyst is not None
        try:
            plan = self._catalyst.parse(text, args)
        except ParseException:
            try:
                check_is_statement(text)
                return STATEMENTS.get(parse(self._catalyst, text, args).nodeName()) is not None
            except (InvalidInput, ParseException):
                return False
        with self._catalyst.active():
            found = databases_in(self._catalyst.opened(plan))
        return any(self.has_database(name) for name in found)

    def has_database(self, name: str) -> bool:
        """Whether the lake, if it is open, has it, in this or, where the session does not care, in another case."""
        if self._closed:
            return False
        known = [database.name for database in self._lake.catalog.databases()]
        if name in known or self.session().conf.get("spark.sql.caseSensitive") == "true":
            return name in known
        return any(one.lower() == name.lower() for one in known)

    def _query(self, plan: LogicalPlan, guard: SafeSql | None, *, fresh: bool, foreign: bool = False) -> DataFrame:
        """The rows of a query."""
        assert self._catalyst is not None
        with _refusing("Spark refuses the query"):
            query = Query(self._catalyst, plan) if guard is None else guard.query(plan)
        failures = flush_keyed(self._lake.context)
        lane = self._lane.take() if fresh and self._lane is not None else None
        version = self._lake.catalog.version() if lane is None else lane.version
        token = _UNFLUSHED.set(failures)
        try:
            with self._holding() as holds, within(guard is not None):
                frames = self._all_frames(query, version, lane, guard, foreign=foreign)
        finally:
            _UNFLUSHED.reset(token)
        with _refusing("Spark refuses the query"):
            result = query.run(frames) if guard is None else guard.run(query, frames)
        self._hold_for(result, holds)
        return result

    def _answered(self, answer: Answer) -> DataFrame:
        """The rows that a statement returns, as a DataFrame."""
        if isinstance(answer, DataFrame):
            return answer
        spark = self.session()
        return spark.createDataFrame(answer) if answer.num_columns else spark.createDataFrame([], StructType([]))

    def _guard(self) -> SafeSql:
        with self._lock:
            if self._safe is None:
                assert self._spark is not None
                self._safe = SafeSql(self._spark)
            return self._safe

    def plan_view(
        self, database: str, name: str, text: str, columns: Sequence[tuple[str, str | None]]
    ) -> tuple[str, Schema]:
        """The text to store for a view, and its columns; see `pipeline.sql.views.plan_view`."""
        self.session()
        version = self._lake.catalog.version()

        def frames(named: Sequence[Reference]) -> dict[Reference, NamedFrame]:
            return self._frames(named, version, None, lake_only=True, hidden=False)

        with self._holding() as holds, within(False, f"{database}.{name}"):
            try:
                return plan_view(text, columns, self._guard(), frames)
            finally:
                for hold in holds:
                    self._lake.context.pins.release_later(hold)

    def read(self, state: TableState) -> DataFrame:
        """The rows of a table at the version of `state`."""
        spark = self.session()
        with self._holding() as holds:
            cached = self._frame(state).frame
        frame = type(cached)(cached._jdf, spark)  # the one that is kept lives longer than whoever asked for it
        self._hold_for(frame, holds)
        return frame

    def frame_schema(self, frame: DataFrame) -> pa.Schema:
        """The schema in which the rows of a DataFrame come to tasks."""
        return frame_arrow_schema(frame.schema)

    def map_frame(self, kernel: FrameKernel[P, R], plan: P, frame: DataFrame) -> list[R]:
        """The results of a kernel over the rows of a DataFrame, in the order of the tasks; nothing is committed."""
        self.session()
        rows_of = RowsOf(plan.table, PLACE) if _IN_STATEMENT.get() else None
        return FrameJob.of(self._lake.context, kernel, plan, frame.schema, rows_of).run(frame)

    def few_rows(self, frame: DataFrame) -> pa.Table | None:
        """All rows of a DataFrame if they are few; see `pipeline.read.few`."""
        self.session()
        return few_rows(frame)

    def backfill(
        self,
        table_id: UUID,
        path: str,
        *,
        format: str | None = None,
        source: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        batch_bytes: int | None = None,
        changed: str = "error",
        progress: Callable[[BatchLoaded], None] | None = None,
    ) -> Backfilled:
        """Load the files of a folder into a table, in batches; see `Table.backfill`."""
        return backfill(
            self._lake,
            SparkRunner(self.session()),
            table_id,
            path,
            format=format,
            source=source,
            storage_options=storage_options,
            batch_bytes=batch_bytes,
            changed=changed,
            progress=progress,
        )

    def runner(self) -> SparkRunner | None:
        """A runner of slices, once the session has started."""
        return None if self._spark is None else SparkRunner(self._spark)

    def close(self) -> None:
        """Let go of files that were copied for Spark. The session goes on."""
        with self._lock:
            self._closed = True
            for other in self._others:
                other.close()
            if self._reader is not None:
                self._reader.close()
            if self._lane is not None:
                self._lane.close()

    def _frame(self, state: TableState, asked: Predicate | None = None) -> NamedFrame:
        assert self._reader is not None
        _HOLDS.get().append(self._lake.context.pins.hold(state.id, state.version))
        return self._reader.frame(state, asked)

    @contextmanager
    def _holding(self) -> Iterator[list[Hold]]:
        """Gathers what pins the versions that frames are made of."""
        token = _HOLDS.set([])
        try:
            yield _HOLDS.get()
        finally:
            _HOLDS.reset(token)

    def _hold_for(self, frame: DataFrame, holds: list[Hold]) -> None:
        """Keep pins for as long as a frame lives, and `pin_seconds` for frames that were made of it."""
        pins = self._lake.context.pins

        def release() -> None:
            for hold in holds:
                pins.release_later(hold)

        if holds:
            weakref.finalize(frame, release).atexit = False

    def _with_fresh(self, state: TableState, lane: Fresh | None, asked: Predicate | None = None) -> NamedFrame:
        assert self._spark is not None
        stored = self._frame(state, asked)
        fresh = None if lane is None else lane.frame(self._spark, state)
        return stored if fresh is None else NamedFrame(stored.frame.union(fresh))

    def _with_hidden(self, state: TableState, lane: Fresh | None, asked: Predicate) -> NamedFrame:
        """The same with the hidden columns, which are null in rows that are in no version yet."""
        assert self._spark is not None
        assert self._reader is not None
        _HOLDS.get().append(self._lake.context.pins.hold(state.id, state.version))
        stored = self._reader.with_hidden(state, asked)
        hidden = hidden_of([field.name for field in state.schema.fields])
        fresh = None if lane is None else lane.frame(self._spark, state)
        if fresh is not None:
            stored = stored.union(fresh.select("*", *(F.lit(None).cast("bigint") for _ in hidden)))
        return NamedFrame(stored, len(hidden))

    def _all_frames(
        self, query: Query, version: int, lane: Fresh | None, guard: SafeSql | None, *, foreign: bool
    ) -> dict[Reference, NamedFrame]:
        """The rows that a query reads: those that were placed in the guard's session, and those of lake tables."""
        placed = {} if guard is None else guard.frames_of(query.references)
        missing = [reference for reference in query.references if reference not in placed]
        if foreign:
            missing = [reference for reference in missing if self.has_database(reference.database)]
        lake_only, hidden = guard is not None, query.asks_hidden
        return placed | self._frames(missing, version, lane, lake_only=lake_only, hidden=hidden)

    def _frames(
        self, references: Sequence[Reference], version: int, lane: Fresh | None, *, lake_only: bool, hidden: bool
    ) -> dict[Reference, NamedFrame]:
        """The rows of lake tables and views that a query reads, at a version; with the `hidden` columns of tables."""
        frames = {}
        for reference in references:
            if reference.is_target:
                continue
            if lake_only and reference.part in WITH_ADDRESSES:
                raise PermissionDenied(f"A safe query cannot see where files are: leave out .{reference.part}.")
            try:
                frames[reference] = self._resolve(reference, version, lane, hidden=hidden)
            except NotFound:
                if lake_only or reference.database.lower() != _SESSION:
                    raise
            except AnalysisException:  # it has the address of the file
                name = f"{reference.database}.{reference.name}"
                raise Corrupt(f"Files of {name} are missing or cannot be read: `moulin check` lists them.") from None
        return frames

    def _resolve(self, reference: Reference, version: int, lane: Fresh | None, *, hidden: bool) -> NamedFrame:
        if reference.version is not None:
            version, lane = reference.version, None
        elif reference.timestamp_ns is not None:
            version, lane = self._lake.catalog.version_at(reference.timestamp_ns), None
        try:
            return self._named(reference, version, lane, hidden=hidden)
        except NotFound:
            as_spelled = self._as_spelled(reference)
            if as_spelled is None:
                raise
        return self._named(as_spelled, version, lane, hidden=hidden)

    def _named(self, reference: Reference, version: int, lane: Fresh | None, *, hidden: bool) -> NamedFrame:
        """The table or view of exactly this name."""
        catalog = self._lake.catalog
        if reference.part is not None or reference.since is not None:
            return self._told(reference, version)
        try:
            state = catalog.table(reference.database, reference.name, version)
            _check_flushed(reference, state.id)
            asked = predicate_of(reference.known, state.schema)
            return self._with_hidden(state, lane, asked) if hidden else self._with_fresh(state, lane, asked)
        except NotFound as missing:
            try:
                view = catalog.view(reference.database, reference.name)
            except NotFound:
                raise missing from None
        if view.query is not None:
            return self._queried(view, reference, version, lane)
        for member in view.members:
            _check_flushed(reference, member.id)
        members = [self._with_fresh(catalog.table_by_id(member.id, version), lane).frame for member in view.members]
        with _refusing(f"View {reference.database}.{reference.name} unites columns that do not go together"):
            return NamedFrame(reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), members))

    def _told(self, reference: Reference, version: int) -> NamedFrame:
        """Metadata of a table, or its changes."""
        assert self._spark is not None
        state = self._lake.catalog.table(reference.database, reference.name, version)
        if reference.part is not None:
            return NamedFrame(self._spark.createDataFrame(metadata_of(self._lake, state, reference.part)))
        assert reference.since is not None
        _check_flushed(reference, state.id)
        state = self._lake.catalog.state_until(state.id, reference.since, version)
        for held in {reference.since, version}:
            _HOLDS.get().append(self._lake.context.pins.hold(state.id, held))
        return NamedFrame(feed_frame(self._spark, self._lake, state, reference.since))

    def _queried(self, view: View, reference: Reference, version: int, lane: Fresh | None) -> NamedFrame:
        """The rows of a view that is a query. `version as of` of the view is that of the tables in it."""
        assert self._catalyst is not None
        is_now = reference.version is None and reference.timestamp_ns is None

        def frames(named: Sequence[Reference]) -> dict[Reference, NamedFrame]:
            plain = {one: one.version is None and one.timestamp_ns is None and not is_now for one in named}
            asked = {one: replace(one, version=version) if plain[one] else one for one in named}
            found = self._frames(list(asked.values()), version, lane, lake_only=True, hidden=False)
            return {one: found[asked[one]] for one in named}

        return read_view(view, self._catalyst, self._guard(), frames)

    def _as_spelled(self, reference: Reference) -> Reference | None:
        """The reference as the lake writes it, when it differs in case, and case makes no difference in the session."""
        catalog = self._lake.catalog
        if self._case_sensitive():
            return None
        database = spelled(reference.database, [database.name for database in catalog.databases()])
        if database is None:
            return None
        known = [*(table.name for table in catalog.tables(database)), *(view.name for view in catalog.views(database))]
        name = spelled(reference.name, known)
        if name is None or (database, name) == (reference.database, reference.name):
            return None
        return replace(reference, database=database, name=name)

    def _case_sensitive(self) -> bool:
        return self.session().conf.get("spark.sql.caseSensitive") == "true"


class _Session:
    """Fills `pipeline.statements.session.Session`."""

    def __init__(self, spark: LakeSpark, catalyst: Catalyst, guard: SafeSql | None, foreign: bool) -> None:
        self._spark, self._guard, self._foreign = spark, guard, foreign
        self.lake, self.catalyst = spark._lake, catalyst

    def query(self, plan: LogicalPlan) -> DataFrame:
        return self._spark._query(plan, self._guard, fresh=False, foreign=self._foreign)

    def opened(self, plan: LogicalPlan) -> LogicalPlan:
        return self.catalyst.opened_actively(plan)

    def flush(self) -> None:
        _UNFLUSHED.set(flush_keyed(self.lake.context))

    def located(self, state: TableState, known: Sequence[Known] = ()) -> DataFrame:
        assert self._spark._reader is not None
        return self._spark._reader.located(state, predicate_of(known, state.schema))

    def resolved(self, plan: LogicalPlan, target: DataFrame, version: int) -> LogicalPlan:
        guard = self._guard
        query = Query(self.catalyst, plan, changes=True) if guard is None else guard.change(plan)
        with within(guard is not None):
            frames = self._spark._all_frames(query, version, None, guard, foreign=self._foreign)
        targets = {reference: NamedFrame(target) for reference in query.references if reference.is_target}
        found = query.resolved({**frames, **targets})
        if guard is not None:
            guard.check_change(found)
        return found

    def spelled(self, reference: Reference) -> Reference:
        return self._spark._as_spelled(reference) or reference

    @property
    def case_sensitive(self) -> bool:
        return self._spark._case_sensitive()

    def table(self, node: LogicalPlan) -> Table:
        written = reference_of(node)
        if written is None:
            raise InvalidInput("A statement changes tables of the lake: write them as database.table.")
        return self.named(written)

    def named(self, written: Reference) -> Table:
        if written.part is not None:
            raise InvalidInput(f"{written.database}.{written.name}.{written.part} is metadata, which is only read.")
        reference = self.spelled(written)
        try:
            return self.lake.table(f"{reference.database}.{reference.name}")
        except NotFound:
            if any(view.name == reference.name for view in self.lake.catalog.views(reference.database)):
                raise InvalidInput(
                    f"{reference.database}.{reference.name} is a view: change the tables that it reads."
                ) from None
            raise


def _check_flushed(reference: Reference, table_id: UUID) -> None:
    """Raise why rows of a table that a query reads as it is now could not be committed first."""
    error = _UNFLUSHED.get().get(table_id)
    if error is not None and reference.version is None and reference.timestamp_ns is None:
        raise error


def _start(given: SparkSession | str | None, environment: Mapping[str, str] | None) -> SparkSession:
    for name in _LOGGERS:  # they print a JSON copy of errors that are raised anyway
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    if given is None or isinstance(given, str):
        return spark_session(master=given, environment=environment)
    return adopt(given)


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Spark's refusal to understand a query as one sentence."""
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise InvalidInput(f"{what}: {refusal(error)}") from None
