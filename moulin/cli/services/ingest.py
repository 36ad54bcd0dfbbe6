"""`moulin collect`, and `moulin ingest`: records that were set aside, the backlog, and stuck streams."""

from __future__ import annotations

import asyncio
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from moulin.cli.help import examples
from moulin.cli.options import GrpcPort, HttpPort, Json, open_lake
from moulin.cli.output import report, say, show_rows
from moulin.errors import Corrupt, InvalidInput, NotFound
from moulin.lake import Lake

if TYPE_CHECKING:
    from moulin.ingest.collector.registry import StreamRegistry
    from moulin.model.ingest import SetAside

app = typer.Typer(
    help="Data received by collectors.",
    no_args_is_help=True,
    epilog=examples("moulin ingest aside", "moulin ingest lag", "moulin ingest skip $STREAM 1"),
)


@app.callback()
def _ingest() -> None:
    """Data received by collectors."""


def register(root: typer.Typer) -> None:
    root.command(epilog=examples("moulin collect --host 0.0.0.0"))(collect)
    root.add_typer(app, name="ingest")


def collect(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    grpc_port: GrpcPort = 4317,
    http_port: HttpPort = 4318,
    tls_certificate: Annotated[Path | None, typer.Option(help="A PEM file; with --tls-key, TLS is on.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="A PEM file.")] = None,
    log_format: Annotated[str, typer.Option(help="json or text, on standard error.")] = "json",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "warning",
    as_json: Json = False,
) -> None:
    """Receive telemetry (OTLP) and rows until stopped. On Ctrl-C, store everything received, then exit."""
    from moulin.ingest.collector.collector import Collector, CollectorSettings
    from moulin.ingest.collector.service import Listen, serve
    from moulin.network.limits import raise_open_files
    from moulin.network.logs import structured_logs

    def ready(grpc: int, http: int) -> None:
        report(
            "ready",
            f"Collecting OTLP/gRPC on {host}:{grpc} and OTLP/HTTP on {host}:{http}; Ctrl-C stops it.",
            as_json,
            grpc_port=grpc,
            http_port=http,
        )

    with structured_logs(log_format, log_level), open_lake(context) as lake:
        registry = _registry(lake)
        settings = CollectorSettings.of(lake.config, platform.node())
        raise_open_files(settings.connections)
        collector = Collector(lake.store, registry, settings)
        asyncio.run(serve(collector, Listen(host, grpc_port, http_port, tls_certificate, tls_key), ready=ready))


@app.command(epilog=examples("moulin ingest aside"))
def aside(
    context: typer.Context,
    stream: Annotated[str | None, typer.Argument(help="Show only records of this stream.")] = None,
    offset: Annotated[
        int | None, typer.Argument(help="Show the requests of the baby segment with this number.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List records that could not be read and were set aside, with the reason."""
    with open_lake(context) as lake:
        found = lake.own_catalog().ingest.set_asides(None if stream is None else _stream_id(stream))
        if offset is None:
            rows = [{"version": version, **_shown_aside(one)} for version, one in found]
            show_rows(rows, as_json, empty="No records were set aside.")
            return
        kept = [one for _, one in found if one.offset == offset]
        if not kept:
            raise NotFound(f"No records of baby segment {offset} of stream {stream} were set aside.")
        show_rows(_requests(lake, kept), as_json)


@app.command(epilog=examples("moulin ingest lag"))
def lag(context: typer.Context, as_json: Json = False) -> None:
    """Show records not yet in tables, by stream, and which streams are stuck."""
    import time

    from moulin.ingest.intake.backlog import backlog
    from moulin.ingest.intake.lag import lag_of

    now, rows = time.time_ns(), []
    with open_lake(context) as lake:
        for stream in lake.own_catalog().ingest.snapshot().streams:
            if stream.is_drained:
                continue
            found = lag_of(backlog(lake.store, stream))
            rows.append(
                {
                    "stream": str(stream.id),
                    "collector": found.collector,
                    "waiting": found.objects,
                    "bytes": found.stored_bytes,
                    "seconds": round(found.seconds(now), 1),
                    "missing": None if found.gap is None else found.gap.offset,
                }
            )
    show_rows(rows, as_json, empty="There are no open streams.")


@app.command(epilog=examples("moulin ingest skip $STREAM 1"))
def skip(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(help="The stuck stream; see `moulin ingest lag`.")],
    offset: Annotated[int, typer.Argument(help="The missing number.")],
    as_json: Json = False,
) -> None:
    """Skip a missing baby segment, so that its stream continues. Its records are lost."""
    import secrets
    import time

    from moulin.formats.baby_segment import encode_keep_alive
    from moulin.ingest.intake.backlog import backlog
    from moulin.storage import paths

    with open_lake(context) as lake:
        stream_id = _stream_id(stream)
        found = lake.own_catalog().ingest.streams([stream_id])
        if not found:
            raise NotFound(f"Stream {stream_id} does not exist.")
        gap = backlog(lake.store, found[0]).gap
        if gap is None or gap.offset != offset:
            missing = "no number is missing" if gap is None else f"number {gap.offset} is missing"
            raise InvalidInput(f"Stream {stream_id} is not stuck at {offset}: {missing}. See `moulin ingest lag`.")
        data = encode_keep_alive(stream_id, secrets.token_bytes(16), offset, time.time_ns())
        lake.store.put_if_absent(paths.baby_segment(stream_id, offset), data)
    say(f"Stream {stream_id} continues after {offset}.", as_json, stream=str(stream_id), skipped=offset)


def _stream_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is not a stream id: it must be a UUID.") from None


def _shown_aside(one: SetAside) -> dict[str, Any]:
    return {
        "stream": str(one.stream_id),
        "offset": one.offset,
        "records": one.records,
        "reason": one.reason,
        "path": one.path,
    }


def _requests(lake: Lake, kept: list[SetAside]) -> list[dict[str, Any]]:
    """The requests in the object that was set aside; a single line if the object itself is damaged."""
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
    """The lake's server, or its catalog if it has none."""
    if lake.uri.startswith(("grpc://", "grpcs://")):
        from moulin.meta.client.client import stream_registry

        return stream_registry(lake)
    from moulin.ingest.collector.registry import CatalogRegistry

    return CatalogRegistry(lake.own_catalog())
