"""`moulin up`: the whole pipeline of a lake in one process tree, and a screen that shows its throughput."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table as RichTable

from moulin.cli.help import examples
from moulin.cli.options import OPTIONS_VARIABLE, GrpcPort, HttpPort, Json, open_lake, require_address
from moulin.cli.output import console, report
from moulin.cli.services.pipeline import NoSpark, ending
from moulin.cli.services.supervisor import Child, Supervisor
from moulin.cli.values import shown, size
from moulin.errors import MoulinError
from moulin.ingest.flow import Flow, FlowWatch, State
from moulin.lake import Lake
from moulin.storage import modes

_SHOWN_STREAMS = 5


def register(root: typer.Typer) -> None:
    root.command(epilog=examples("moulin up --no-spark"))(up)


def up(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="The address that the collector listens on.")] = "127.0.0.1",
    grpc_port: GrpcPort = 4317,
    http_port: HttpPort = 4318,
    serve_bind: Annotated[str, typer.Option(help="host:port of the server's gRPC.")] = "127.0.0.1:9560",
    serve_http_bind: Annotated[
        str, typer.Option(help="host:port of the server's HTTP; empty for none.")
    ] = "127.0.0.1:8181",
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two batches of the nursery.")] = 1.0,
    nursery_metrics_bind: Annotated[
        str, typer.Option(help="host:port of the nursery's /metrics (port 0: any free one); empty for none.")
    ] = "127.0.0.1:4319",
    logs: Annotated[Path | None, typer.Option(help="A folder for the logs of the processes.")] = None,
    no_spark: NoSpark = False,
    as_json: Json = False,
) -> None:
    """Run server, janitor, collector, nursery and compaction until Ctrl-C. Crashed processes are restarted."""
    folder = logs or Path(tempfile.mkdtemp(prefix="moulin-up-"))
    folder.mkdir(mode=modes.OWNER_ONLY, parents=True, exist_ok=True)
    grpc, http = (port or _free_port(host) for port in (grpc_port, http_port))
    ports = ["--host", host, "--grpc-port", str(grpc), "--http-port", str(http)]
    commands = {
        "serve": ["serve", "--bind", serve_bind, "--http-bind", serve_http_bind, *([] if no_spark else ["--sql"])],
        "collect": ["collect", *ports],
        "nursery": [
            *("nursery", "--merge", "--interval", str(interval), "--metrics-bind", nursery_metrics_bind),
            *(["--no-spark"] if no_spark else []),
        ],
    }
    children = [_child(context, name, words, folder) for name, words in commands.items()]
    supervisor = Supervisor(children)
    with open_lake(context) as lake, ending() as over:
        lake.own_catalog()  # a lake behind a server is rejected before anything starts
        supervisor.start()
        page = f"http://{serve_http_bind}/" if serve_http_bind else None
        report(
            "ready",
            f"OTLP/gRPC on {host}:{grpc}, OTLP/HTTP on {host}:{http}; logs in {folder}; Ctrl-C stops it."
            + (f" Console: {page}" if page else ""),
            as_json,
            console=page,
            grpc_port=grpc,
            http_port=http,
            logs=str(folder),
            children={child.name: child.pid for child in children},
        )
        try:
            figures = Figures(lake)
            screen = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
            if screen is not None and not as_json:
                with screen:
                    while not over.wait(1.0):
                        supervisor.tend()
                        supervisor.require_running()
                        screen.update(_screen(children, figures.look()), refresh=True)
            else:
                told: tuple[str, ...] = ()
                while not over.wait(0.5):
                    told = _say_flow(figures.flow(), told, as_json)
                    for child in supervisor.tend():
                        report(
                            "restart",
                            f"{child.name} ended with {child.code} and was started again.",
                            as_json,
                            restarted=child.name,
                            code=child.code,
                            pid=child.pid,
                        )
                    supervisor.require_running()
        finally:
            supervisor.stop()


def _say_flow(flow: Flow, told: tuple[str, ...], as_json: bool) -> tuple[str, ...]:
    """Print what is stuck if that changes; returns the state to compare with next time."""
    subjects = tuple(sentence.partition(" (")[0].partition(" for ")[0] for sentence in flow.advice)
    if subjects != told:
        text = " ".join(flow.advice) or "No stream is stuck any more."
        report(
            "flow", text, as_json, state=flow.state.value, advice=list(flow.advice), lag_seconds=round(flow.seconds, 1)
        )
    return subjects


def _child(context: typer.Context, name: str, words: Sequence[str], folder: Path) -> Child:
    address = require_address(context)
    environment = dict(os.environ)
    environment["MOULIN_LAKE"] = str(address.lake)  # not on the command line, where others could read secrets
    if address.storage is not None:
        environment["MOULIN_STORAGE"] = address.storage
    if address.storage_options:
        environment[OPTIONS_VARIABLE] = json.dumps(address.storage_options)
    return Child(name, ["-m", "moulin.cli.main", *words], folder / f"{name}.log", environment)


@dataclass(frozen=True, slots=True)
class Look:
    """The state at one moment, and the changes since the last."""

    version: int
    streams: int
    flow: Flow
    tables: tuple[tuple[str, int, float, int], ...]  # name, rows, rows per second, segments
    tasks: int
    set_aside: int
    problem: str = ""


class Figures:
    """Reads the throughput from the catalog."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._rows: dict[str, int] = {}
        self._at = time.monotonic()
        self._flow = FlowWatch(lake)
        self._last = Look(0, 0, Flow(), (), 0, 0)

    def look(self) -> Look:
        try:
            self._last = self._look()
        except MoulinError as error:
            self._last = Look(0, 0, Flow(), (), 0, 0, error.message)
        return self._last

    def flow(self) -> Flow:
        """The state of the telemetry streams; unchanged if the catalog is unavailable."""
        try:
            return self._flow.look(lambda: self._lake.own_catalog().ingest.snapshot().streams)
        except MoulinError:
            return Flow()

    def _look(self) -> Look:
        catalog = self._lake.own_catalog()
        listed = catalog.ingest.snapshot()
        active = [stream for stream in listed.streams if stream.stopped_at is None]
        now, before = time.monotonic(), self._at
        tables = []
        fed = {getattr(token.routing, signal) for token in listed.routing for signal in ("logs", "traces", "metrics")}
        for table in sorted(listed.tables, key=lambda table: table.name):
            if table.id not in fed or table.retired:
                continue
            rows = catalog.count_rows(table.id, listed.version)
            gained = rows - self._rows.get(table.name, rows)
            segments = len(catalog.segments(table.id, listed.version, with_columns=False))
            tables.append((table.name, rows, gained / max(now - before, 0.1), segments))
            self._rows[table.name] = rows
        self._at = now
        return Look(
            listed.version,
            len(active),
            self._flow.look(lambda: listed.streams),
            tuple(tables),
            len(catalog.maintenance.merge_tasks()),
            sum(aside.records for _, aside in catalog.ingest.set_asides()),
        )


def _screen(children: Sequence[Child], look: Look) -> RenderableType:
    processes = RichTable("process", "pid", "up", "restarts", "says", title="moulin up", title_justify="left")
    for child in children:
        alive = f"{time.monotonic() - child.started_at:,.0f} s" if child.is_alive else f"[red]ended {child.code}[/red]"
        says = child.last_line()[: max(20, console.width - 50)].replace("[", "\\[")
        processes.add_row(child.name, str(child.pid or ""), alive, str(child.restarts), says)
    flows = RichTable("table", "rows", "rows/s", "segments")
    for name, rows, speed, segments in look.tables:
        flows.add_row(name, shown(rows), f"{speed:,.0f}", shown(segments))
    words: list[Any] = [
        f"version {look.version:,}",
        f"{look.streams} streams",
        _flow_words(look.flow),
        f"{look.tasks} merge tasks waiting",
    ]
    if look.set_aside:
        words.append(f"[yellow]{look.set_aside:,} records set aside[/yellow]")
    parts: list[RenderableType] = [processes, flows, " · ".join(words)]
    if look.flow.lags:
        parts.append(_lags(look.flow))
    parts += [f"[red]{escape(sentence)}[/red]" for sentence in look.flow.advice]
    if look.problem:
        parts.append(f"[red]{look.problem}[/red]")
    return Group(*parts)


def _flow_words(flow: Flow) -> str:
    """The state of the nursery, in a few words."""
    match flow.state:
        case State.IDLE:
            return "[green]idle[/green]: no backlog"
        case State.FLOWING:
            return f"lag {flow.seconds:,.0f} s, {size(flow.stored_bytes)} in {flow.objects:,} baby segments wait"
    return f"[red]stuck[/red]: lag {flow.seconds:,.0f} s, {size(flow.stored_bytes)} wait"


def _lags(flow: Flow) -> RichTable:
    table = RichTable("stream", "collector", "waiting", "bytes", "lag", "missing")
    for lag in flow.lags[:_SHOWN_STREAMS]:
        missing = "" if lag.gap is None else f"[red]{lag.gap.offset}[/red]"
        seconds = f"{lag.seconds(flow.looked_at):,.0f} s"
        name = escape(lag.collector)
        table.add_row(str(lag.stream_id), name, shown(lag.objects), size(lag.stored_bytes), seconds, missing)
    return table


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
