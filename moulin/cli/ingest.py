"""`moulin collect`, and the tables that `moulin init --otel` makes."""

from __future__ import annotations

import asyncio
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moulin.cli.options import Json, open_lake
from moulin.cli.output import say
from moulin.lake import Lake

if TYPE_CHECKING:
    from moulin.ingest.registry import StreamRegistry


def register(app: typer.Typer) -> None:
    app.command()(collect)


def collect(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    grpc_port: Annotated[int, typer.Option(help="OTLP/gRPC; 0 for any free port.")] = 4317,
    http_port: Annotated[int, typer.Option(help="OTLP/HTTP and appends; 0 for any free port.")] = 4318,
    tls_certificate: Annotated[Path | None, typer.Option(help="A PEM file; with --tls-key, TLS is on.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="A PEM file.")] = None,
    as_json: Json = False,
) -> None:
    """Take telemetry (OTLP) and rows from senders, until told to end; Ctrl-C stores what was taken first."""
    from moulin.ingest.collector import Collector, CollectorSettings
    from moulin.ingest.service import Listen, serve

    def ready(grpc: int, http: int) -> None:
        say(
            f"Collecting OTLP/gRPC on {host}:{grpc} and OTLP/HTTP on {host}:{http}; Ctrl-C ends it.",
            as_json,
            grpc_port=grpc,
            http_port=http,
        )

    with open_lake(context) as lake:
        registry = _registry(lake)
        collector = Collector(lake.store, registry, CollectorSettings.of(lake.config, platform.node()))
        asyncio.run(serve(collector, Listen(host, grpc_port, http_port, tls_certificate, tls_key), ready=ready))


def _registry(lake: Lake) -> StreamRegistry:
    """Who to ask: the server that the lake is behind, or its catalog."""
    if lake.uri.startswith(("grpc://", "grpcs://")):
        from moulin.meta.client import stream_registry

        return stream_registry(lake)
    from moulin.ingest.registry import CatalogRegistry

    return CatalogRegistry(lake.own_catalog())
