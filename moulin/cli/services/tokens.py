"""`moulin token`: ingest tokens and their tables."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from moulin.cli.help import examples
from moulin.cli.options import All, DatabaseName, Json, open_lake
from moulin.cli.output import say, say_dropped, show_rows, show_values
from moulin.cli.values import moment
from moulin.errors import InvalidInput
from moulin.lake import Lake
from moulin.model.ingest import SIGNALS, NewToken, Routing, Token
from moulin.model.names import full_name, parse_table_name

app = typer.Typer(
    help="Ingest tokens: who may send telemetry, and to which tables.",
    no_args_is_help=True,
    epilog=examples(
        "moulin token create otel.app --traces traces --logs logs --metrics metrics",
        "moulin token rotate otel.default --overlap-seconds 3600",
        "moulin token list otel",
    ),
)


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="token")


TokenName = Annotated[str, typer.Argument(metavar="TOKEN", help="database.token")]
Table = Annotated[str | None, typer.Option(help="The table for signals without an option of their own.")]
Signal = Annotated[str | None, typer.Option(help="The table for this signal, in the token's database.")]
Days = Annotated[float | None, typer.Option(help="Days until the token expires; by default never.")]

DAY = 86_400


@app.command(epilog=examples("moulin token create otel.app --traces traces --logs logs --metrics metrics"))
def create(
    context: typer.Context,
    name: TokenName,
    table: Table = None,
    traces: Signal = None,
    logs: Signal = None,
    metrics: Signal = None,
    expires_days: Days = None,
    as_json: Json = False,
) -> None:
    """Create an ingest token. The secret is shown only once."""
    database, token = parse_table_name(name, "token")
    with open_lake(context) as lake:
        routing = _routing(lake, database, table, {"traces": traces, "logs": logs, "metrics": metrics})
        made = lake.tokens.create_token(database, token, routing, expires_in=_seconds(expires_days))
        _show_secret(name, made, as_json)


@app.command(epilog=examples("moulin token rotate otel.default --overlap-seconds 3600"))
def rotate(
    context: typer.Context,
    name: TokenName,
    overlap_seconds: Annotated[float, typer.Option(help="How long older secrets stay valid.")] = 0,
    expires_days: Days = None,
    as_json: Json = False,
) -> None:
    """Create a new secret for a token. It is shown only once."""
    with open_lake(context) as lake:
        made = lake.tokens.rotate_token(
            *parse_table_name(name, "token"), overlap_seconds=overlap_seconds, expires_in=_seconds(expires_days)
        )
        _show_secret(name, made, as_json)


def _show_secret(name: str, made: NewToken, as_json: bool) -> None:
    if as_json:
        show_values({"id": str(made.token.id), "name": name, "secret": made.plaintext}, True)
        return
    say(f"Created token {name}. Save the secret now; it is not shown again:")
    print(made.plaintext)


@app.command("list", epilog=examples("moulin token list otel"))
def list_all(context: typer.Context, database: DatabaseName, everything: All = False, as_json: Json = False) -> None:
    """List the tokens of a database."""
    with open_lake(context) as lake:
        names = {entry.id: entry.name for entry in lake.tables(database, include_dropped=True)}
        rows = [
            {
                **_described(token, names),
                **({"gone_at": moment(token.tombstone.delete_at) if token.tombstone else None} if everything else {}),
            }
            for token in lake.tokens.tokens(database, include_dropped=everything)
        ]
        show_rows(rows, as_json, empty=f"Database {database} has no tokens.")


@app.command(epilog=examples("moulin token show otel.default"))
def show(context: typer.Context, name: TokenName, as_json: Json = False) -> None:
    """Show a token; never its secret."""
    database, token = parse_table_name(name, "token")
    with open_lake(context) as lake:
        names = {entry.id: entry.name for entry in lake.tables(database, include_dropped=True)}
        found = lake.tokens.token(database, token)
        show_values({"id": str(found.id), **_described(found, names)}, as_json)


def _described(token: Token, names: dict[Any, str]) -> dict[str, Any]:
    return {
        "name": token.name,
        **{signal: names.get(getattr(token.routing, signal)) for signal in SIGNALS},
        "secret_ends_in": token.hint,
        "created": moment(token.created_at),
        "expires": moment(token.expires_at),
    }


@app.command(epilog=examples("moulin token route otel.default --logs logs"))
def route(
    context: typer.Context,
    name: TokenName,
    table: Table = None,
    traces: Signal = None,
    logs: Signal = None,
    metrics: Signal = None,
    as_json: Json = False,
) -> None:
    """Change the tables of a token. Signals without an option are not changed."""
    database, token = parse_table_name(name, "token")
    with open_lake(context) as lake:
        given = {"traces": traces, "logs": logs, "metrics": metrics}
        routing = _routing(lake, database, table, given, lake.tokens.token(database, token).routing)
        lake.tokens.set_token_routing(database, token, routing)
        say(f"Changed the tables of token {name}.", as_json, name=name)


@app.command(epilog=examples("moulin token drop otel.default"))
def drop(context: typer.Context, name: TokenName, as_json: Json = False) -> None:
    """Drop a token. It can be resurrected until its grace period ends."""
    with open_lake(context) as lake:
        dropped = lake.tokens.drop_token(*parse_table_name(name, "token"))
        say_dropped("Token", "token", name, dropped.tombstone, as_json)


@app.command(epilog=examples("moulin token resurrect otel.lost"))
def resurrect(context: typer.Context, name: TokenName, as_json: Json = False) -> None:
    """Restore a dropped token; its secrets are valid again."""
    with open_lake(context) as lake:
        lake.tokens.resurrect_token(*parse_table_name(name, "token"))
        say(f"Token {name} is restored.", as_json, name=name)


def _routing(
    lake: Lake, database: str, default: str | None, given: dict[str, str | None], before: Routing | None = None
) -> Routing:
    """The table of each signal by name; bare names are in the token's database."""
    targets = {}
    for signal in SIGNALS:
        named = given[signal] or default
        if named is not None:
            targets[signal] = lake.table(named if "." in named else full_name(database, named), read_only=True).id
        elif before is not None:
            targets[signal] = getattr(before, signal)
        else:
            raise InvalidInput(f"No table for {signal}: give --table for all signals, or --{signal}.")
    return Routing(**targets)


def _seconds(days: float | None) -> float | None:
    return None if days is None else round(days * DAY)
