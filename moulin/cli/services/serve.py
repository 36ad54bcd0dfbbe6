"""`moulin serve` and `moulin access`: the server, and its access tokens."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from moulin.cli.help import examples
from moulin.cli.options import Json, open_lake, require_address
from moulin.cli.output import say, show_rows, show_values
from moulin.cli.served import Sql, mount
from moulin.cli.values import moment
from moulin.config import file_settings
from moulin.errors import FailedPrecondition

access = typer.Typer(
    help="Access tokens: who may call the server, and with which role.",
    no_args_is_help=True,
    epilog=examples(
        "moulin access create bob --role read --expires-days 30", "moulin access list", "moulin access revoke alice"
    ),
)


def register(root: typer.Typer) -> None:
    root.command(epilog=examples("moulin serve --bind 127.0.0.1:9560 --http-bind 127.0.0.1:8181"))(serve)
    root.add_typer(access, name="access")


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", help="A moulin.toml: its \\[serve], and settings that override those in the lake's folder."
    ),
]
AccessFile = Annotated[
    Path | None, typer.Option(help="The file with access tokens; by default access.toml in the lake's folder.")
]


def _meta(name: str) -> Any:
    """Import a module of the network services when it is needed, because their packages are an extra."""
    return importlib.import_module(f"moulin.meta.{name}")


def _config_file(context: typer.Context, given: Path | None) -> Path | None:
    if given is not None and not given.is_file():
        raise FailedPrecondition(f"{given} does not exist.")
    lake = require_address(context).lake
    return given or (None if lake is None or "://" in lake else Path(lake) / "moulin.toml")


def _lake_settings(given: Path | None) -> dict[str, Any]:
    """The lake's settings in a --config file; the file in the lake's folder is read with the lake."""
    return {} if given is None else file_settings(given)


def serve(
    context: typer.Context,
    bind: Annotated[str | None, typer.Option(help="host:port for gRPC; META_BIND.")] = None,
    http_bind: Annotated[str | None, typer.Option(help="host:port for HTTP; empty for none.")] = None,
    config: ConfigFile = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="A PEM file.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="A PEM file.")] = None,
    sql: Annotated[
        bool | None,
        typer.Option(
            "--sql/--no-sql",
            help="Run SQL of the console on Spark too, or disable SQL. By default it runs on DuckDB, if installed.",
        ),
    ] = None,
) -> None:
    """Serve the lake: gRPC on 9560, HTTP and the console on 8181. SIGTERM finishes running calls, then stops."""
    settings = _meta("config")
    settings.require_known_environment()
    chosen = settings.load_serve_config(
        _config_file(context, config),
        bind=bind,
        http_bind=http_bind,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        sql=None if sql is None else ("on" if sql else "off"),
    )
    settings_of_lake = _lake_settings(config)
    logs, serving = importlib.import_module("moulin.network.logs"), _meta("server.serve")
    importlib.import_module("moulin.network.limits").raise_open_files(chosen.limits)
    with (
        logs.structured_logs(chosen.log_format, chosen.log_level),
        open_lake(context, settings=settings_of_lake) as lake,
    ):
        options = require_address(context).storage_options
        offer = Sql.of(chosen, options)
        served = serving.Serving(lake, chosen, storage_options=options, mount=lambda app: mount(app, offer))
        if not serving.run_until_signal(served):
            raise typer.Exit(1)


@access.command("create", epilog=examples("moulin access create bob --role read --expires-days 30"))
def create_access(
    context: typer.Context,
    name: str,
    role: Annotated[str, typer.Option(help="read, write, pipeline or admin; each includes those before it.")] = "read",
    expires_days: Annotated[float | None, typer.Option(help="Days until the token expires; by default never.")] = None,
    access_file: AccessFile = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Create an access token for clients (MOULIN_TOKEN). The secret is shown only once.

    A running server accepts it at once.
    """
    auth = _meta("auth")
    secret = _file(context, access_file, config).create(name, auth.to_role(role), expires_days)
    if as_json:
        show_values({"name": name, "role": role, "secret": secret}, True)
        return
    say(f"Created access token {name} with role {role}. Save the secret now; it is not shown again:")
    print(secret)


@access.command("list", epilog=examples("moulin access list"))
def list_access(
    context: typer.Context, access_file: AccessFile = None, config: ConfigFile = None, as_json: Json = False
) -> None:
    """List access tokens."""
    rows = [
        {
            "name": token.name,
            "role": token.role.name.lower(),
            "expires": None if token.expires is None else moment(int(token.expires.timestamp() * 1e9)),
        }
        for token in _file(context, access_file, config).tokens()
    ]
    show_rows(rows, as_json, empty="No access tokens; create one with: moulin access create NAME --role ROLE")


@access.command("rotate", epilog=examples("moulin access rotate alice --expires-days 30"))
def rotate_access(
    context: typer.Context,
    name: str,
    expires_days: Annotated[float | None, typer.Option(help="Days until it ends; as before, when left out.")] = None,
    access_file: AccessFile = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Give a token a new secret, shown once, now; a running server refuses the former one at once."""
    secret = _file(context, access_file, config).rotate(name, expires_days)
    if as_json:
        show_values({"name": name, "secret": secret}, True)
        return
    say(f"Access {name} has a new secret. Keep it now; it is not shown again:")
    print(secret)


@access.command("revoke", epilog=examples("moulin access revoke alice"))
def revoke_access(
    context: typer.Context,
    name: str,
    access_file: AccessFile = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Revoke an access token. A running server rejects it at once."""
    _file(context, access_file, config).revoke(name)
    say(f"Access token {name} is revoked.", as_json, name=name)


def _file(context: typer.Context, given: Path | None, config: Path | None) -> Any:
    auth = _meta("auth")
    if given is not None:
        return auth.AccessFile(given)
    chosen = _meta("config").load_serve_config(_config_file(context, config))
    with open_lake(context, settings=_lake_settings(config)) as lake:
        return auth.AccessFile(_meta("server.server").access_path(lake, chosen))
