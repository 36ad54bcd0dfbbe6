"""`moulin index`: secondary indexes of a table."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from moulin.cli.help import examples
from moulin.cli.options import Json, TableName, open_lake
from moulin.cli.output import say, show_rows
from moulin.cli.progress import progress
from moulin.cli.values import Bytes, moment, size
from moulin.table.index.index import IndexInfo

app = typer.Typer(
    help="Secondary indexes.",
    no_args_is_help=True,
    epilog=examples(
        "moulin index create shop.orders id", "moulin index list shop.orders", "moulin index update shop.orders"
    ),
)


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="index")


@app.command(epilog=examples("moulin index create shop.orders id"))
def create(
    context: typer.Context,
    table: TableName,
    column: Annotated[str, typer.Argument(metavar="COLUMN")],
    kind: Annotated[
        str,
        typer.Option(
            help="btree (values and ranges), bloom (values only, smaller), bitmap (few values) or label_list (lists)."
        ),
    ] = "btree",
    name: Annotated[str | None, typer.Option(help="The index name; by default COLUMN_KIND.")] = None,
    spark: Annotated[bool, typer.Option(help="Run the tasks on Spark.")] = False,
    as_json: Json = False,
) -> None:
    """Create an index on a column of a table."""
    with open_lake(context) as lake, progress(f"Indexing {column}", quiet=as_json, lake=lake):
        if spark:
            lake.spark()
        made = lake.table(table).create_index(column, kind, name)
    text = f"Index {made.name} covers {made.covered:,} segments of {table} ({size(made.bytes)})."
    say(text, as_json, **describe(made))


@app.command("list", epilog=examples("moulin index list shop.orders"))
def list_all(context: typer.Context, table: TableName, as_json: Json = False) -> None:
    """List the indexes of a table."""
    with open_lake(context) as lake:
        rows = [describe(index) for index in lake.table(table).indexes()]
        show_rows(rows, as_json, empty=f"{table} has no index.")


@app.command(epilog=examples("moulin index update shop.orders"))
def update(context: typer.Context, table: TableName, as_json: Json = False) -> None:
    """Extend the indexes of a table to segments written since."""
    with open_lake(context) as lake, progress("Indexing", quiet=as_json, lake=lake):
        version = lake.table(table).update_indexes().version
    say(f"The indexes of {table} cover all of its segments, at version {version}.", as_json, version=version)


@app.command(epilog=examples("moulin index drop shop.orders region_btree"))
def drop(context: typer.Context, table: TableName, name: str, as_json: Json = False) -> None:
    """Drop an index."""
    with open_lake(context) as lake:
        version = lake.table(table).drop_index(name).version
    say(f"Dropped index {name} of {table}, at version {version}.", as_json, version=version)


def describe(index: IndexInfo) -> dict[str, Any]:
    """One line of a list of indexes."""
    return {
        "index": index.name,
        "column": index.column,
        "kind": index.kind,
        "covered": index.covered,
        "segments": index.segments,
        "files": index.files,
        "bytes": Bytes(index.bytes),
        "created": moment(index.created_at),
    }
