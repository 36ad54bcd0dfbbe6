"""`moulin mirror`: copy a lake to another storage root, once or continuously."""

# Decisions: docs/decisions/0721

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer
from rich.live import Live
from rich.text import Text

from moulin.cli.help import examples
from moulin.cli.options import Json, open_lake, parse_options
from moulin.cli.output import errors, report, warn
from moulin.cli.progress import progress
from moulin.cli.values import size
from moulin.errors import MoulinError
from moulin.lake import Lake
from moulin.mirror import Mirror, MirrorReport, describe


def register(root: typer.Typer) -> None:
    root.command(epilog=examples("moulin mirror ./copy --once"))(mirror)


def mirror(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A folder or an object store, s3://bucket/prefix.")],
    once: Annotated[bool, typer.Option("--once", help="Stop when the target has the newest version.")] = False,
    interval: Annotated[float, typer.Option(min=0.0, help="Seconds between two rounds.")] = 5.0,
    target_option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the target's store; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy the lake to TARGET and keep the copy up to date, until stopped."""
    with open_lake(context) as lake:
        copy = Mirror(lake, target, parse_options(target_option or []) or None)
        if once:
            _flush(lake)
            with progress(f"Copying to {copy.target.uri}", quiet=as_json) as bar:
                done = copy.run_once(bar.of)
            report("round", _line(copy, done), as_json, target=copy.target.uri, **describe(done))
            _warn_of_streams(lake)
            return
        _follow(copy, interval, as_json)


def _flush(lake: Lake) -> None:
    """Commit rows that dead writers left in logs, as a copy has only what versions have."""
    try:
        lake.flush()
    except MoulinError as error:
        warn(f"The copy lacks rows that were put and not flushed. {error.message}")


def _warn_of_streams(lake: Lake) -> None:
    """The copy has nothing that collectors stored and no version took in."""
    from moulin.ingest.intake.backlog import backlog
    from moulin.ingest.intake.lag import lag_of

    streams = [stream for stream in lake.own_catalog().ingest.snapshot().streams if not stream.is_drained]
    if waiting := sum(lag_of(backlog(lake.store, stream)).objects for stream in streams):
        what = f"{waiting:,} baby segment{'' if waiting == 1 else 's'} of collectors that no version has taken in"
        warn(f"The copy lacks {what}. Run `moulin nursery --once`, then copy again.")


def _follow(copy: Mirror, interval: float, as_json: bool) -> None:
    stop = threading.Event()
    earlier = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Live(Text(f"Copying to {copy.target.uri}"), console=errors, transient=True) as live:

            def show(done: MirrorReport) -> None:
                if as_json:
                    report("round", "", as_json, target=copy.target.uri, **describe(done))
                else:
                    live.update(Text(_line(copy, done)))

            copy.follow(interval, stop, show)
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _line(copy: Mirror, report: MirrorReport) -> str:
    behind = (
        f"{report.lag_versions:,} versions ({report.lag_seconds:,.1f} s) behind"
        if report.lag_versions
        else "up to date"
    )
    copied = f"{report.objects:,} objects, {size(report.bytes)}"
    return f"{copy.target.uri} is at version {report.version:,}, {behind}; {copied} copied."
