"""`moulin view`: ordered unions of tables, and queries."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer

from moulin.cli.help import examples
from moulin.cli.options import All, DatabaseName, Json, ViewName, open_lake
from moulin.cli.output import errors, say, say_dropped, show_rows, show_values
from moulin.cli.values import moment
from moulin.model.entities import View, ViewHistory, ViewQuery
from moulin.model.names import full_name

app = typer.Typer(
    help="Views: ordered unions of tables, and queries.",
    no_args_is_help=True,
    epilog=examples(
        "moulin view create shop.both orders returns", "moulin view set shop.all orders", "moulin view list shop"
    ),
)


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="view")


Members = Annotated[list[str], typer.Argument(metavar="TABLE...")]


@app.command(epilog=examples("moulin view create shop.both orders returns"))
def create(
    context: typer.Context,
    name: ViewName,
    tables: Annotated[list[str] | None, typer.Argument(metavar="TABLE...")] = None,
    sql: Annotated[str | None, typer.Option(help="A query in Spark SQL, instead of tables.")] = None,
    description: Annotated[str | None, typer.Option()] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an existing view.")] = False,
    as_json: Json = False,
) -> None:
    """Create a view over tables of its database, or from a query."""
    with open_lake(context) as lake, errors.status("Starting Spark ...") if sql is not None else nullcontext():
        made = lake.create_view(name, tables or None, sql=sql, description=description, replace=replace)
        say(f"Created view {name}.", as_json, **_named(made))


@app.command("set", epilog=examples("moulin view set shop.all orders"))
def set_tables(context: typer.Context, name: ViewName, tables: Members, as_json: Json = False) -> None:
    """Replace the tables of a view."""
    with open_lake(context) as lake:
        made = lake.set_view_tables(name, tables)
        say(f"View {name} is now the union of {', '.join(tables)}.", as_json, **_named(made))


@app.command("list", epilog=examples("moulin view list shop"))
def list_all(context: typer.Context, database: DatabaseName, everything: All = False, as_json: Json = False) -> None:
    """List the views of a database."""
    with open_lake(context) as lake:
        rows = [
            {
                "name": v.name,
                "kind": kind_of(v),
                "tables": [m.name for m in v.members],
                "description": v.description,
                **({"gone_at": moment(v.tombstone.delete_at) if v.tombstone else None} if everything else {}),
            }
            for v in lake.views(database, include_dropped=everything)
        ]
        show_rows(rows, as_json, empty=f"Database {database} has no views.")


@app.command(epilog=examples("moulin view show shop.all"))
def show(context: typer.Context, name: ViewName, as_json: Json = False) -> None:
    """Show a view."""
    with open_lake(context) as lake:
        view = lake.view(name)
        show_values(
            {
                "name": full_name(view.database, view.name),
                "kind": kind_of(view),
                "tables": [m.name for m in view.members],
                "description": view.description,
                "created": moment(view.created_at),
                **({} if view.query is None else _described(view.query)),
            },
            as_json,
        )


def _named(view: View) -> dict[str, object]:
    return {
        "id": view.id,
        "name": f"{view.database}.{view.name}",
        "kind": kind_of(view),
        "tables": [m.name for m in view.members],
    }


def kind_of(view: View) -> str:
    return "union" if view.query is None else "query"


def _described(query: ViewQuery) -> dict[str, object]:
    return {
        "version": query.version,
        "columns": {field.name: str(field.field_type) for field in query.schema.fields},
        "properties": dict(query.properties),
        "sql": {one.dialect: one.sql for one in query.representations},
        **({} if query.history is None else _history(query.history)),
    }


def _history(history: ViewHistory) -> dict[str, object]:
    current = history.current
    return {
        "default_catalog": current.default_catalog,
        "default_namespace": ".".join(current.default_namespace),
        "location": history.location,
        "current_version": history.current_id,
        "versions": [
            {
                "version": one.version_id,
                "when": moment(one.timestamp_ms * 1_000_000),
                "dialects": [text.dialect for text in one.representations],
            }
            for one in history.versions
        ],
    }


@app.command(epilog=examples("moulin view rename shop.all shop.everything"))
def rename(context: typer.Context, name: ViewName, new_name: str, as_json: Json = False) -> None:
    """Rename a view."""
    with open_lake(context) as lake:
        made = lake.rename_view(name, new_name)
        say(f"View {name} is now {new_name}.", as_json, **_named(made))


@app.command(epilog=examples("moulin view drop shop.all"))
def drop(context: typer.Context, name: ViewName, as_json: Json = False) -> None:
    """Drop a view. It can be resurrected for five minutes."""
    with open_lake(context) as lake:
        dropped = lake.drop_view(name)
        say_dropped("View", "view", name, dropped.tombstone, as_json)


@app.command(epilog=examples("moulin view resurrect shop.gone"))
def resurrect(context: typer.Context, name: ViewName, as_json: Json = False) -> None:
    """Restore a dropped view."""
    with open_lake(context) as lake:
        found = lake.resurrect_view(name)
        say(f"View {name} is restored.", as_json, **_named(found))
