"""SQL: statements in child processes, their rows, plans and exports, and completion."""

# Decisions: docs/decisions/0650, docs/decisions/0651

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import pyarrow as pa
from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import Field

from moulin.catalog.catalog import Catalog
from moulin.console.api.requests import Console, ConsoleOf, takes
from moulin.console.api.shapes import Column, Cutter, Int64, Shape
from moulin.console.sql.completion import Kind, complete
from moulin.console.sql.export import FORMATS
from moulin.console.sql.statements import LONGEST_TEXT, Statement, Statements
from moulin.console.sql.wire import PlanStep
from moulin.errors import FailedPrecondition, InvalidInput, MoulinError, NotFound, Unavailable
from moulin.model.rows.nano_datetime import to_rows
from moulin.network.callers import Role, caller

router = APIRouter(prefix="/sql", tags=["sql"])
READ = takes(Role.READ)
Engine = Literal["spark", "duckdb"]
_LONGEST_CELL: Final = 2000
_WIDE: Final = frozenset({pa.int64(), pa.uint64()})
_OFF: Final = (
    "This server runs no SQL: start it with `moulin serve --sql`, or install DuckDB (pip install 'moulin[duckdb]')."
)

_Text = Annotated[str, Field(max_length=LONGEST_TEXT)]


class SqlShape(Shape):
    """What runs statements here, the one to begin with first, and what a statement may take."""

    engines: list[str]
    seconds: float
    rows: int
    running: int
    result_bytes: Int64


class Asking(Shape):
    """A statement: one query. `limit` is the most rows wanted; `version` the version of the lake to read."""

    text: _Text
    engine: Engine | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    version: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None


class Mistake(Shape):
    """Why a statement failed; `line` and `column`, from 1, say where, if that is known."""

    type: str
    message: str
    line: int | None
    column: int | None


class StatementShape(Shape):
    """A statement. `progress` is a part of 1. When it is done it has `rows`; `more` than these where the limit cut
    them off, and `cut` where the bytes did.
    """

    id: UUID
    state: Literal["waiting", "starting", "running", "done", "failed", "cancelled"]
    engine: str
    limit: int
    version: Int64 | None
    created_at: Int64
    seconds: float | None
    progress: float | None
    columns: list[Column]
    rows: int
    more: bool
    cut: bool
    error: Mistake | None


class ResultPage(Shape):
    """Rows from a place on. Numbers of 64 bits, decimals, times and bytes are text; `cut`: a long value was cut."""

    columns: list[Column]
    start: int
    rows: list[list[Any]]
    total: int
    cut: bool


class StepShape(Shape):
    """A step of a plan, with the steps that it reads from."""

    name: str
    details: list[list[str]]
    inputs: list[StepShape]


class ShareShape(Shape):
    """How many of a table's segments are read."""

    table: str
    read: int
    total: int


class PlanShape(Shape):
    steps: list[StepShape]
    shares: list[ShareShape]


class Completing(Shape):
    """A text before and after the cursor."""

    before: _Text
    after: _Text = ""
    engine: Engine = "spark"


class CandidateShape(Shape):
    text: str
    kind: Kind
    detail: str


class Candidates(Shape):
    """What may be put in place of `replaced`, the end of the text before the cursor; the likeliest first."""

    replaced: str
    items: list[CandidateShape]


@router.get("", **READ)
def show_sql(console: ConsoleOf) -> SqlShape:
    """Which engines run statements here, and the limits. Without any, this server runs none."""
    if console.sql is None:
        return SqlShape(engines=[], seconds=0, rows=0, running=0, result_bytes=0)
    limits = console.sql.limits
    return SqlShape(
        engines=console.sql.engines,
        seconds=limits.seconds,
        rows=limits.rows,
        running=limits.running,
        result_bytes=limits.result_bytes,
    )


@router.post("", status_code=201, **READ)
def start_statement(asking: Asking, console: ConsoleOf) -> StatementShape:
    """Start a statement, which reads tables and views of the lake and nothing else. Ask for it until it has ended."""
    return _shape(_statements(console).start(caller.get(), asking.text, asking.engine, asking.limit, asking.version))


@router.post("/complete", **READ)
def complete_text(completing: Completing, console: ConsoleOf) -> Candidates:
    """Databases, tables, columns, functions and words that may follow in a text."""
    functions = console.functions(completing.engine) if console.functions is not None else ()
    names = _CatalogNames(console.lake.own_catalog())
    replaced, found = complete(completing.before, completing.after, completing.engine, names, functions)
    return Candidates(
        replaced=replaced, items=[CandidateShape(text=x.text, kind=x.kind, detail=x.detail) for x in found]
    )


@router.get("/{id}", **READ)
def show_statement(id: UUID, console: ConsoleOf) -> StatementShape:
    """How far a statement is. Only the token that started it sees it; its rows are kept for ten minutes."""
    return _shape(_statements(console).get(caller.get(), id))


@router.delete("/{id}", **READ)
def cancel_statement(id: UUID, console: ConsoleOf) -> StatementShape:
    """Stop a statement, which takes up to some seconds; forget one that has ended."""
    return _shape(_statements(console).cancel(caller.get(), id))


@router.get("/{id}/rows", **READ)
def list_result(
    id: UUID,
    console: ConsoleOf,
    start: Annotated[int, Query(ge=0, alias="from", description="The number of the first row.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
) -> ResultPage:
    """Rows of a statement that is done, in the order of the result."""
    rows = _rows(_statements(console).get(caller.get(), id))
    part = rows.slice(min(start, rows.num_rows), limit)
    numbered = pa.table([_shown(column) for column in part.columns], names=list(map(str, range(part.num_columns))))
    cutter = Cutter(_LONGEST_CELL)
    cells = [[cutter.cell(value) for value in row.values()] for row in to_rows(numbered, pairs=True)]
    if not part.num_columns:
        cells = [[] for _ in range(part.num_rows)]
    return ResultPage(columns=_columns(rows), start=start, rows=cells, total=rows.num_rows, cut=cutter.cut)


@router.get("/{id}/plan", **READ)
def show_plan(id: UUID, console: ConsoleOf) -> PlanShape:
    """How the engine would run the statement now, and how many segments of each table it would read."""
    found = _statements(console).plan(caller.get(), id)
    return PlanShape(
        steps=[_step(one) for one in found.steps],
        shares=[ShareShape(table=one.table, read=one.read, total=one.total) for one in found.shares],
    )


@router.get("/{id}/export", response_class=StreamingResponse, **READ)
def export_result(
    id: UUID, console: ConsoleOf, format: Literal["csv", "ndjson", "arrow", "parquet"] = "csv"
) -> StreamingResponse:
    """The rows of a statement that is done, all that are kept, as a file."""
    rows = _rows(_statements(console).get(caller.get(), id))
    kind, make = FORMATS[format]
    headers = {"Content-Disposition": f'attachment; filename="result.{format}"', "Cache-Control": "no-store"}
    return StreamingResponse(make(rows), media_type=kind, headers=headers)


def _statements(console: Console) -> Statements:
    if console.sql is None:
        raise FailedPrecondition(_OFF)
    return console.sql


def _rows(statement: Statement) -> pa.Table:
    if statement.rows is not None:
        return statement.rows
    if statement.error is not None:
        raise statement.error
    raise Unavailable(f"The statement is {statement.state}: retry in a moment.")


def _shape(one: Statement) -> StatementShape:
    return StatementShape(
        id=one.id,
        state=one.state,
        engine=one.engine,
        limit=one.limit,
        version=one.version,
        created_at=one.created_at,
        seconds=one.seconds,
        progress=one.progress,
        columns=[] if one.rows is None else _columns(one.rows),
        rows=0 if one.rows is None else one.rows.num_rows,
        more=one.more,
        cut=one.cut,
        error=None if one.error is None else _mistake(one.error),
    )


def _mistake(error: MoulinError) -> Mistake:
    line, column = (error.line, error.column) if isinstance(error, InvalidInput) else (None, None)
    return Mistake(type=type(error).__name__, message=error.message, line=line, column=column)


def _columns(rows: pa.Table) -> list[Column]:
    return [Column(name=field.name, type=str(field.type)) for field in rows.schema]


def _shown(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of 64-bit numbers as text, so that all of its values are of one kind."""
    return column.cast(pa.string()) if column.type in _WIDE else column


def _step(one: PlanStep) -> StepShape:
    return StepShape(
        name=one.name, details=[list(pair) for pair in one.details], inputs=[_step(each) for each in one.inputs]
    )


class _CatalogNames:
    """What the catalog has now, asked for once in a question."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._databases: list[str] | None = None
        self._columns: dict[tuple[str, str], list[tuple[str, str]]] = {}

    def databases(self) -> Iterable[str]:
        if self._databases is None:
            self._databases = [one.name for one in self._catalog.databases()]
        return self._databases

    def tables(self, database: str) -> Iterable[tuple[str, Kind]]:
        yield from ((one.name, "table") for one in self._catalog.tables(database))
        yield from ((one.name, "view") for one in self._catalog.views(database))

    def columns(self, database: str, table: str) -> Iterable[tuple[str, str]]:
        key = database, table
        if key not in self._columns:
            self._columns[key] = self._read_columns(*key)
        return self._columns[key]

    def _read_columns(self, database: str, table: str) -> list[tuple[str, str]]:
        try:
            schema = self._catalog.table(database, table).schema
        except (NotFound, InvalidInput):
            try:
                query = self._catalog.view(database, table).query
            except (NotFound, InvalidInput):
                return []
            if query is None:
                return []
            schema = query.schema
        return [(field.name, str(field.field_type)) for field in schema.fields]


__all__ = ["router"]
