"""`moulin collect`, and `moulin ingest aside`: what nurseries could not read."""

from __future__ import annotations

import asyncio
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from moulin.cli.options import GrpcPort, HttpPort, Json, open_lake
from moulin.cli.output import say, show_rows
from moulin.errors import Corrupt, InvalidInput, NotFound
from moulin.lake import Lake

if TYPE_CHECKING:
    from moulin.ingest.collector.registry import StreamRegistry
    from moulin.model.ingest import SetAside

app = typer.Typer(help="What came in through collectors.", no_args_is_help=True)


@app.callback()
def _ingest() -> None:
    """Makes `aside` a command of its own, although it is the only one."""


def register(root: typer.Typer) -> None:
    root.command()(collect)
    root.add_typer(app, name="ingest")


def collect(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    grpc_port: GrpcPort = 4317,
    http_port: HttpPort = 4318,
    tls_certificate: Annotated[Path | None, typer.Option(help="A PEM file; with --tls-key, TLS is on.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="A PEM file.")] = None,
    as_json: Json = False,
) -> None:
    """Take telemetry (OTLP) and rows from senders, until stopped; Ctrl-C stores what was taken first."""
    from moulin.ingest.collector.collector import Collector, CollectorSettings
    from moulin.ingest.collector.service import Listen, serve

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


@app.command()
def aside(
    context: typer.Context,
    stream: Annotated[str | None, typer.Argument(help="Only what came from this stream.")] = None,
    offset: Annotated[
        int | None, typer.Argument(help="Show the requests of the baby segment with this number.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List records that could not be read and were kept aside, each with the reason."""
    with open_lake(context) as lake:
        found = lake.own_catalog().ingest.set_asides(None if stream is None else _stream_id(stream))
        if offset is None:
            rows = [{"version": version, **_shown_aside(one)} for version, one in found]
            show_rows(rows, as_json, empty="Nothing was set aside.")
            return
        kept = [one for _, one in found if one.offset == offset]
        if not kept:
            raise NotFound(f"Nothing of baby segment {offset} of stream {stream} was set aside.")
        show_rows(_requests(lake, kept), as_json)


def _stream_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is not the id of a stream: it is a UUID.") from None


def _shown_aside(one: SetAside) -> dict[str, Any]:
    return {
        "stream": str(one.stream_id),
        "offset": one.offset,
        "records": one.records,
        "reason": one.reason,
        "path": one.path,
    }


def _requests(lake: Lake, kept: list[SetAside]) -> list[dict[str, Any]]:
    """The requests that the kept object holds; one line for it as a whole when it is damaged itself."""
    from moulin.formats.baby_segment import decode

    path, reasons = kept[0].path, "; ".join(dict.fromkeys(one.reason for one in kept))
    data = lake.store.get(path)
    try:
        entries = decode(data, source=path).entries
    except Corrupt:
        entries = ()
    if not entries:
        return [{"payload": "all of it", "token": None, "table": None, "bytes": len(data), "reason": reasons}]
    return [
        {
            "payload": entry.payload.name.lower(),
            "token": str(entry.token_id),
            "table": entry.table or None,
            "bytes": len(entry.data),
            "reason": reasons,
        }
        for entry in entries
    ]


def _registry(lake: Lake) -> StreamRegistry:
    """Who to ask: the server that the lake is behind, or its catalog."""
    if lake.uri.startswith(("grpc://", "grpcs://")):
        from moulin.meta.client.client import stream_registry

        return stream_registry(lake)
    from moulin.ingest.collector.registry import CatalogRegistry

    return CatalogRegistry(lake.own_catalog())
