"""`moulin sql`: statements from the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from moulin.cli.help import examples
from moulin.cli.options import Json, Limit, open_lake
from moulin.cli.query.engines import ENGINES
from moulin.cli.query.engines import engine as open_engine
from moulin.cli.query.formats import rows_wanted, write
from moulin.cli.query.forms import FormatName, OutputFile, chosen_format
from moulin.errors import InvalidInput
from moulin.statement_text import statements

EngineName = Annotated[str, typer.Option("--engine", metavar="|".join(ENGINES), help="The engine that runs the SQL.")]


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            'moulin sql "select region, sum(amount) from shop.orders group by region" --engine duckdb',
            'moulin sql "select * from shop.orders" --engine duckdb --format csv --output rows.csv',
        )
    )(sql)


def sql(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="One statement, or several separated by ;.")],
    engine: EngineName = "spark",
    kind: FormatName = "table",
    output: OutputFile = None,
    limit: Limit = None,
    fresh: Annotated[
        bool, typer.Option(help="Include records that were acknowledged but not yet committed; on Spark.")
    ] = True,
    safe: Annotated[
        bool,
        typer.Option("--safe", help="For untrusted queries: only tables of the lake, no files, no programs; on Spark."),
    ] = False,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Print the plan instead of rows; with Spark, including how many segments are read."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run SQL over the lake: on Spark, or in DuckDB, which needs no Java.

    To read an older version, use `database.table version as of 12` on Spark and `moulin_table('database.table', version
    := 12)` in DuckDB. The results of several statements are printed one after the other.
    """
    kind = chosen_format(kind, output, as_json)
    found = statements(text, "duckdb" if engine == "duckdb" else "spark")
    if not found:
        raise InvalidInput("The text contains no statement.")
    if len(found) > 1 and output is not None:
        raise InvalidInput(
            f"An output file can contain the rows of only one statement, but there are {len(found)}: run them one by "
            f"one."
        )
    with open_lake(context) as lake:
        chosen = open_engine(engine, lake, "`moulin sql`", fresh=fresh, safe=safe)
        for statement in (f"EXPLAIN {text}" for text in found) if plan else found:
            write(chosen.run(statement, rows_wanted(kind, output, limit)), kind, output, limit)


__all__ = ["EngineName", "register", "sql"]
