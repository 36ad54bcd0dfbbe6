"""Spark and DuckDB as engines that run one statement at a time and can be cancelled."""

# Decisions: docs/decisions/0264

from __future__ import annotations

import secrets
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from moulin.cli.extras import Need, require
from moulin.cli.output import errors
from moulin.cli.query.results import Result
from moulin.errors import InvalidInput
from moulin.statement_text import Dialect, branches_in, with_branches

if TYPE_CHECKING:
    from moulin.lake import Lake

ENGINES: tuple[Dialect, Dialect] = ("spark", "duckdb")


class Engine(Protocol):
    """Runs statements, one at a time."""

    @property
    def dialect(self) -> Dialect: ...

    def run(self, text: str, limit: int | None) -> Result:
        """The rows of a statement; the caller reads at most `limit` of them."""

    def cancel(self) -> None:
        """Stop the running statement; called from another thread."""


def engine(name: str, lake: Lake, what: str, *, fresh: bool = True, safe: bool = False) -> Engine:
    """The engine with this name; FailedPrecondition if its packages are not installed."""
    if name == "spark":
        require(what, [Need("spark")])
        return SparkEngine(lake, fresh=fresh, safe=safe)
    if name != "duckdb":
        raise InvalidInput(f"Unknown engine {name!r}: use spark or duckdb.")
    if safe:
        raise InvalidInput("--safe needs --engine spark, because DuckDB runs with the rights of this process.")
    require(f"{what} with DuckDB", [Need("duckdb")])
    return DuckEngine(lake)


class SparkEngine:
    """`lake.sql`. All jobs of a statement are in one job group, which a cancellation stops."""

    dialect: Dialect = "spark"

    def __init__(self, lake: Lake, *, fresh: bool, safe: bool) -> None:
        self._lake, self._fresh, self._safe = lake, fresh, safe
        self._context: Any = None
        self._group = f"moulin-{secrets.token_hex(8)}"

    def run(self, text: str, limit: int | None) -> Result:
        from moulin.pipeline.sql.results import batches, columns_of

        with errors.status("Starting Spark ..." if self._context is None else "Running ..."):
            if self._context is not None:
                self._context.setJobGroup(self._group, text, interruptOnCancel=True)
            frame = self._lake.sql(text, fresh=self._fresh, safe=self._safe)
            if self._context is None:
                self._context = frame.sparkSession.sparkContext
                self._context.setJobGroup(self._group, text, interruptOnCancel=True)
            if not frame.columns:
                return Result(pa.schema([]), iter(()))
            found = batches(frame, limit)
            first = next(found, None)
        return Result(columns_of(frame) if first is None else first.schema, chain([first] if first else [], found))

    def cancel(self) -> None:
        if self._context is not None:
            self._context.cancelJobGroup(self._group)


class DuckEngine:
    """`lake.duckdb`, at the newest version of the lake for each statement."""

    dialect: Dialect = "duckdb"

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._connection: Any = None

    def run(self, text: str, limit: int | None) -> Result:
        from moulin.duck.results import batches, reader

        named = branches_in(text, "duckdb") if self._lake.on_branch is None else set()
        found = {one.name for one in self._lake.branches()} if named else set()
        self._connection = self._lake.duckdb(self._connection, branches=named & found)
        stream = reader(self._connection, with_branches(text, "duckdb"))
        return Result(stream.schema, batches(stream))

    def cancel(self) -> None:
        if self._connection is not None:
            self._connection.interrupt()
