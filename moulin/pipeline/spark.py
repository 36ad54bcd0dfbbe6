"""Spark for one lake: the session, SQL over its tables, DataFrames out and in, and a runner of slices."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from uuid import UUID

import pyarrow as pa
from pyspark.errors import ParseException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from moulin.errors import Closed, InvalidInput, NotFound, PermissionDenied
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.names import AT, full_name, quote
from moulin.model.predicate.condition import TRUE, Condition
from moulin.model.rows.rows import RowsOf
from moulin.model.schema.values import Schema
from moulin.pipeline.attached.session import AttachedSession
from moulin.pipeline.read.few import few_rows
from moulin.pipeline.read.reader import NamedFrame
from moulin.pipeline.runner import SparkRunner
from moulin.pipeline.session import activate, adopt, safe_environment, spark_session
from moulin.pipeline.source.loaded import state_of
from moulin.pipeline.sql.catalyst import Arguments, Catalyst, LogicalPlan
from moulin.pipeline.sql.deferred import DeferredFrame, Fill
from moulin.pipeline.sql.names import Query, Reference, databases_in, reference_of
from moulin.pipeline.sql.optimizer import StandIn, without_place
from moulin.pipeline.sql.pruning import Pruning
from moulin.pipeline.sql.resolver import Resolver, beside_view, branches_of, flush, flush_all, refusing, unflushed
from moulin.pipeline.sql.row_expression import RowExpression
from moulin.pipeline.sql.safe import SafeSql
from moulin.pipeline.sql.sql import check_is_statement
from moulin.pipeline.sql.tables import Tables, hold_for, holding, waiting
from moulin.pipeline.sql.views import plan_view, within
from moulin.pipeline.statements.answer import COUNTS, Answer, is_counts
from moulin.pipeline.statements.statements import HARMLESS, STATEMENTS, parse
from moulin.pipeline.write.backfill import backfill
from moulin.pipeline.write.writer import FrameJob, frame_arrow_schema
from moulin.table.edit.edits import PLACE
from moulin.table.pins import Hold
from moulin.table.ports import Backfilled, BatchLoaded, FrameKernel, P, R
from moulin.table.table import Table

_IN_STATEMENT: ContextVar[bool] = ContextVar("in_statement", default=False)
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class LakeSpark:
    """Fills `moulin.table.ports.Spark`. Thread-safe.

    `spark` is a session, a master's address, or None for the session that runs already, else a local one. The session
    starts when it is first needed and is not stopped with this object.
    """

    def __init__(self, lake: Lake, spark: SparkSession | str | None = None) -> None:
        self._lake = lake
        self._given = spark
        self._tables: Tables | None = None
        self._resolver: Resolver | None = None
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
                self._tables = Tables(self._lake, self._spark)
                self._catalyst = Catalyst(self._spark)
                self._resolver = Resolver(self._lake, self._spark, self._tables, self._catalyst, self._guard)
            return self._spark

    def sql(
        self,
        text: str,
        args: Arguments | None = None,
        *,
        fresh: bool = True,
        safe: bool = False,
        version: int | None = None,
    ) -> DataFrame:
        """Run a query; all tables in it are seen at one version of the lake, unless it says `version as of`.

        It is the newest one, unless another is given. With `fresh`, also what collectors acknowledged and no version
        has yet; not at a given version. With `safe`, see pipeline/sql/safe.py.
        """
        check_is_statement(text)
        self._open(safe)
        return self.run(
            text,
            args,
            self._guard() if safe else None,
            fresh=fresh,
            changes=not safe and version is None,
            version=version,
        )

    def run(
        self,
        text: str,
        args: Arguments | None,
        guard: SafeSql | None,
        *,
        fresh: bool = True,
        changes: bool,
        foreign: bool = False,
        version: int | None = None,
    ) -> DataFrame:
        """Run a statement, checked by a guard if one is given; without `changes`, statements that change are refused.

        A query sees the newest version, or another that is given. With `foreign`, tables in databases that the lake
        does not have are left to Spark. REQUIRES: the session has started.
        """
        assert self._catalyst is not None
        catalyst = self._catalyst if guard is None else guard.catalyst
        with refusing("Spark refuses the statement"):
            plan = parse(catalyst if guard is None else guard, text, args)
            if plan.nodeName() == "UnresolvedWith":
                plan = catalyst.opened_actively(plan)
        if plan.nodeName() not in STATEMENTS:
            return self._query(plan, guard, fresh=fresh, foreign=foreign, at=version)
        if not changes and plan.nodeName() not in HARMLESS:
            raise PermissionDenied("A safe query cannot change anything: use a SELECT.")
        return self.change(plan, guard, foreign=foreign, on_main=AT not in text)

    def change(
        self, plan: LogicalPlan, guard: SafeSql | None, *, foreign: bool = False, on_main: bool = False
    ) -> DataFrame:
        """Run a statement of `STATEMENTS` that was planned already; `on_main` says that it names no branch.

        REQUIRES: its caller may change tables.
        """
        catalyst = self._catalyst if guard is None else guard.catalyst
        assert catalyst is not None
        run = STATEMENTS[plan.nodeName()]
        if guard is not None and hasattr(plan, "toJSON"):
            guard.check_statement(plan)
        with refusing("Spark refuses the statement"), holding() as holds, unflushed({}):
            token = _IN_STATEMENT.set(True)
            try:
                named = (
                    set() if on_main or not hasattr(plan, "toJSON") else databases_in(catalyst.opened_actively(plan))
                )
                return self._answered(run(_Session(self, catalyst, guard, foreign, branches_of(named)), plan))
            finally:
                _IN_STATEMENT.reset(token)
                for hold in holds:
                    hold.release()

    def guard(self) -> SafeSql:
        """A Spark session for safe queries that nobody else has; the lake's own is started when there is none."""
        return SafeSql(self._open(safe=True))

    def query(self, plan: LogicalPlan, guard: SafeSql) -> DataFrame:
        """The rows of a query that a caller planned in the session of this guard."""
        return self._query(plan, guard, fresh=True)

    def attached(self, session: SparkSession | None = None) -> SparkSession:
        """A session, by default the lake's own, that knows the tables of the lake."""
        own = self.session()
        if session is not None and session.sparkContext is not own.sparkContext:
            raise InvalidInput("The lake uses another Spark application: connect with spark=session.")
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
        self.session()
        assert self._resolver is not None
        return self._resolver.has_database(name)

    def rows(self, database: str, name: str) -> DataFrame:
        """All rows of a table or view as it is now. Filters that are put on them choose what is read."""
        assert self._catalyst is not None
        with refusing("Spark refuses the query"):
            plan = parse(self._catalyst, f"select * from {quote(database, name)}", None)
        return self._query(plan, None, fresh=True, deferred=True)

    def _query(
        self,
        plan: LogicalPlan,
        guard: SafeSql | None,
        *,
        fresh: bool,
        foreign: bool = False,
        deferred: bool = False,
        at: int | None = None,
    ) -> DataFrame:
        """The rows of a query, perhaps at a version; `deferred`, so that filters that follow choose what is read."""
        assert self._catalyst is not None
        assert self._tables is not None
        assert self._resolver is not None
        with refusing("Spark refuses the query"):
            query = Query(self._catalyst, plan) if guard is None else guard.query(plan)
        failures = flush_all(self._lake, branches_of(reference.database for reference in query.references))
        lane = self._tables.take_fresh() if fresh and at is None else None
        version = at
        if version is None:
            version = self._lake.catalog.version() if lane is None else lane.version
        catalyst = self._catalyst if guard is None else guard.catalyst
        pruning = self._tables.pruning(catalyst, every=query.is_explained, own=deferred)
        waits = waiting(None if query.asks_files else pruning)
        with holding() as holds, within(guard is not None), unflushed(failures), waits:
            frames = self._resolver.all_of(query, version, lane, guard, foreign=foreign)
        if deferred and pruning.is_waiting:
            return self._deferred(query.run(frames), pruning, holds)
        with refusing("Spark refuses the query"):
            finish = pruning.filled
            result = query.run(frames, finish=finish) if guard is None else guard.run(query, frames, finish)
        if query.is_explained and (shares := pruning.shares):
            lines = "\n".join(["== Segments ==", *map(str, shares), ""])
            result = result.select(F.concat(F.col("plan"), F.lit(lines)).alias("plan"))
        hold_for(self._lake.context.pins, result, holds)
        return result

    def _answered(self, answer: Answer) -> DataFrame:
        """The rows that a statement returns, as a DataFrame."""
        if isinstance(answer, DataFrame):
            return answer
        spark = self.session()
        if not answer.num_columns:
            return spark.createDataFrame([], StructType([]))
        if is_counts(answer):  # one row of numbers, which takes Spark less time as a text than as Arrow
            values = (f"{column[0].as_py()}L AS {name}" for name, column in zip(COUNTS, answer.columns, strict=True))
            return spark.sql(f"SELECT {', '.join(values)}")
        return spark.createDataFrame(answer)

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
        assert self._tables is not None
        assert self._resolver is not None
        version, resolver = self._lake.catalog.version(), self._resolver

        def frames(named: Sequence[Reference]) -> dict[Reference, NamedFrame]:
            asked = {one: beside_view(database, one) for one in named}
            found = resolver.named(list(asked.values()), version, None, lake_only=True, hidden=False)
            return {one: found[asked[one]] for one in named}

        waits = waiting(self._tables.pruning(self._guard().catalyst))  # its columns are looked at, and no rows
        with holding() as holds, within(False, full_name(database, name)), waits:
            try:
                return plan_view(text, columns, self._guard(), frames)
            finally:
                for hold in holds:
                    self._lake.context.pins.release_later(hold)

    def read(self, state: TableState) -> DataFrame:
        """The rows of a table at the version of `state`."""
        spark = self.session()
        assert self._tables is not None
        assert self._catalyst is not None
        pruning = self._tables.pruning(self._catalyst, own=True)
        with holding() as holds, waiting(pruning):
            found = self._tables.table(state).frame
        if pruning.is_waiting:
            return self._deferred(found, pruning, holds)
        frame = type(found)(found._jdf, spark)  # the cached one outlives its caller
        hold_for(self._lake.context.pins, frame, holds)
        return frame

    def loaded(self, options: Mapping[str, str], columns: StructType | None) -> DataFrame | None:
        """The rows that options of `format("moulin")` name, in these columns; None where Spark's source reads them.

        Filters that are put on them choose what is read, which Spark does not do for its source.
        """
        if self._closed or self._lake.context.config.sql_pruning != "on":
            return None
        self.session()
        found = state_of(self._lake, options, columns)
        if found is None:
            return None
        frame = self.read(found)
        return frame if columns is None else frame.select(*(quote(column.name) for column in columns))

    def _deferred(self, draft: DataFrame, pruning: Pruning, holds: list[Hold]) -> DataFrame:
        """A frame that reads what is asked of it. Its versions are pinned while it lives, or a frame made of it."""
        assert self._catalyst is not None
        fill = Fill(self._catalyst, pruning)
        hold_for(self._lake.context.pins, fill, holds)
        return DeferredFrame(draft, fill)

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

    def row_expression(self, schema: Schema, sql: str) -> RowExpression:
        """An SQL expression over single rows; see `RowExpression`."""
        return RowExpression(self.session(), schema, sql)

    def runner(self) -> SparkRunner | None:
        """A runner of slices, once the session has started."""
        return None if self._spark is None else SparkRunner(self._spark)

    def close(self) -> None:
        """Let go of files that were copied for Spark. The session goes on."""
        with self._lock:
            self._closed = True
            for other in self._others:
                other.close()
            if self._tables is not None:
                self._tables.close()


class _Session:
    """Fills `pipeline.statements.session.Session`."""

    def __init__(
        self, spark: LakeSpark, catalyst: Catalyst, guard: SafeSql | None, foreign: bool, branches: Collection[str]
    ) -> None:
        self._branches = branches
        assert spark._tables is not None
        assert spark._resolver is not None
        self._spark, self._guard, self._foreign = spark, guard, foreign
        self._tables, self._resolver = spark._tables, spark._resolver
        self.lake, self.catalyst = spark._lake, catalyst
        self._pruning = self._tables.pruning(catalyst)
        self._target: StandIn | None = None

    def query(self, plan: LogicalPlan) -> DataFrame:
        return self._spark._query(plan, self._guard, fresh=False, foreign=self._foreign)

    def opened(self, plan: LogicalPlan) -> LogicalPlan:
        return self.catalyst.opened_actively(plan)

    def flush(self) -> None:
        flush(self.lake, self._branches)

    def located(self, state: TableState) -> DataFrame:
        self._target = self._tables.located(state, self._pruning)
        return self._target.frame

    def run(self, plan: LogicalPlan, target: Condition = TRUE) -> DataFrame:
        known = {}
        if self._target is not None and self.lake.context.config.sql_pruning == "on":
            known[self._target.number] = target
        return self.catalyst.run(self._pruning.filled(plan, known))

    def resolved(self, plan: LogicalPlan, state: TableState) -> tuple[DataFrame, LogicalPlan]:
        guard = self._guard
        query = Query(self.catalyst, plan, changes=True) if guard is None else guard.change(plan)
        with within(guard is not None), waiting(None if query.asks_files else self._pruning):
            frames = self._resolver.all_of(query, state.version, None, guard, foreign=self._foreign)
        if query.asks_files:  # which a stand-in does not have
            rows = self._tables.located_rows(state)
            own = without_place(rows)
        else:
            rows = self.located(state)
            assert self._target is not None
            own = self._target.own
        targets = {reference: NamedFrame(own) for reference in query.references if reference.is_target}
        found = query.resolved({**frames, **targets})
        if guard is not None:
            guard.check_change(found)
        return rows, found

    def spelled(self, reference: Reference) -> Reference:
        return self._resolver.as_spelled(reference) or reference

    @property
    def case_sensitive(self) -> bool:
        return self._resolver.case_sensitive

    def table(self, node: LogicalPlan) -> Table:
        written = reference_of(node)
        if written is None:
            raise InvalidInput("A statement can only change tables of the lake: write them as database.table.")
        return self.named(written)

    def named(self, written: Reference) -> Table:
        if written.part is not None:
            raise InvalidInput(
                f"{full_name(written.database, written.name)}.{written.part} is metadata, which is read-only."
            )
        reference = self.spelled(written)
        try:
            return self.lake.table(full_name(reference.database, reference.name))
        except NotFound:
            if any(view.name == reference.name for view in self.lake.catalog.views(reference.database)):
                raise InvalidInput(
                    f"{full_name(reference.database, reference.name)} is a view: change its tables instead."
                ) from None
            raise


def _start(given: SparkSession | str | None, environment: Mapping[str, str] | None) -> SparkSession:
    for name in _LOGGERS:  # they print a JSON copy of errors that are raised anyway
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    if given is None or isinstance(given, str):
        return spark_session(master=given, environment=environment)
    return adopt(given)
