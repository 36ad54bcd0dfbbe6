"""`moulin sql-server`: Spark Connect for clients with a token."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from moulin.cli.help import examples
from moulin.cli.options import open_lake, require_address
from moulin.cli.output import say
from moulin.config import file_settings
from moulin.errors import FailedPrecondition


def register(root: typer.Typer) -> None:
    root.command("sql-server", epilog=examples("moulin sql-server --port 15002"))(sql_server)


def sql_server(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any free one.")] = 15002,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Other addresses than loopback require tokens.")
    ] = "127.0.0.1",
    config: Annotated[Path | None, typer.Option("--config", help="A moulin.toml with \\[serve].")] = None,
    tls_certificate: Annotated[Path | None, typer.Option("--tls-certificate", "--tls-cert", help="A PEM file.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="A PEM file.")] = None,
) -> None:
    """Serve SQL to Spark Connect clients, with tokens of `moulin access`. Ctrl-C or SIGTERM stops."""
    settings: Any = importlib.import_module("moulin.meta.config")
    settings.require_known_environment()
    if config is not None and not config.is_file():
        raise FailedPrecondition(f"{config} does not exist.")
    lake_address = require_address(context).lake
    in_folder = None if lake_address is None or "://" in lake_address else Path(lake_address) / "moulin.toml"
    bind = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    chosen = settings.load_serve_config(
        config or in_folder, bind=bind, http_bind="", tls_certificate=tls_certificate, tls_key=tls_key
    )
    importlib.import_module("moulin.network.limits").raise_open_files(chosen.limits)
    logs: Any = importlib.import_module("moulin.network.logs")
    server: Any = importlib.import_module("moulin.sql_server.server")
    lake_settings = {} if config is None else file_settings(config)
    with (
        logs.structured_logs(chosen.log_format, chosen.log_level),
        open_lake(context, settings=lake_settings) as lake,
    ):
        made = server.SqlServer(lake, chosen)

        def ready() -> None:
            say(f"Serving {made.address}; stop with Ctrl-C.")

        if not importlib.import_module("moulin.meta.server.serve").run_until_signal(made, ready):
            raise typer.Exit(1)
