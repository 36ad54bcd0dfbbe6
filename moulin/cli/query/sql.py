"""`moulin sql`: statements from the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from moulin.cli.options import Json, Limit, open_lake
from moulin.cli.query.engines import ENGINES
from moulin.cli.query.engines import engine as open_engine
from moulin.cli.query.formats import FORMATS, check_format, rows_wanted, write
from moulin.errors import InvalidInput
from moulin.statement_text import statements

EngineName = Annotated[str, typer.Option("--engine", metavar="|".join(ENGINES), help="What runs the SQL.")]
FormatName = Annotated[str, typer.Option("--format", metavar="|".join(FORMATS), help="The form of the rows.")]


def register(app: typer.Typer) -> None:
    app.command()(sql)


def sql(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="One statement, or several with ; between them.")],
    engine: EngineName = "spark",
    kind: FormatName = "table",
    output: Annotated[str | None, typer.Option(metavar="FILE", help="Write the rows to a file.")] = None,
    limit: Limit = None,
    fresh: Annotated[
        bool, typer.Option(help="Include records that were acknowledged but not yet committed; on Spark.")
    ] = True,
    safe: Annotated[
        bool,
        typer.Option("--safe", help="For a query by someone else: only lake tables, no files, no programs; on Spark."),
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the plan instead of rows; Spark's says how many segments are read.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run SQL over the lake: on Spark, or in DuckDB, which needs no Java.

    An older version is `database.table version as of 12` on Spark and `moulin_table('database.table', version := 12)`
    in DuckDB. Several statements print their rows one after the other.
    """
    kind = "json" if as_json else kind
    check_format(kind, output)
    found = statements(text, "duckdb" if engine == "duckdb" else "spark")
    if not found:
        raise InvalidInput("There is no statement in the text.")
    if len(found) > 1 and output is not None:
        raise InvalidInput(f"A file has the rows of one statement, and the text has {len(found)}: run them one by one.")
    with open_lake(context) as lake:
        chosen = open_engine(engine, lake, "`moulin sql`", fresh=fresh, safe=safe)
        for statement in (f"EXPLAIN {text}" for text in found) if plan else found:
            write(chosen.run(statement, rows_wanted(kind, output, limit)), kind, output, limit)


__all__ = ["EngineName", "FormatName", "register", "sql"]
