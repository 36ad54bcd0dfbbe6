"""`moulin nursery`, `moulin worker`, `moulin janitor`: what keeps telemetry flowing, until told to end."""

from __future__ import annotations

import importlib
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from types import FrameType
from typing import Annotated, Any

import typer

from moulin.cli.help import examples
from moulin.cli.options import Json, open_lake
from moulin.cli.output import complain, report, say, show_values
from moulin.cli.values import size
from moulin.errors import FailedPrecondition, InvalidInput, MoulinError, Unavailable
from moulin.lake import Lake
from moulin.model.ids import new_id

Interval = Annotated[float, typer.Option(min=0.0, help="Seconds from one look to the next.")]
Once = Annotated[bool, typer.Option("--once", help="Do what there is to do, and end.")]
_WATCH_SECONDS = 0.1
_FILLS_SECONDS = 30.0  # from one look for killed fills to the next
NoSpark = Annotated[bool, typer.Option("--no-spark", help="Run everything in this process, however large.")]


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("moulin nursery", "moulin nursery --once --no-spark"))(nursery)
    app.command(epilog=examples("moulin worker", "moulin worker --once --no-spark"))(worker)
    app.command(epilog=examples("moulin janitor --once"))(janitor)


def nursery(
    context: typer.Context,
    interval: Interval = 2.0,
    once: Once = False,
    no_spark: NoSpark = False,
    merge: Annotated[bool, typer.Option("--merge", help="Do merge tasks (compaction) in this process, too.")] = False,
    streaming: Annotated[
        bool, typer.Option("--streaming", help="Tick by Structured Streaming, with its progress in Spark's UI.")
    ] = False,
    metrics_bind: Annotated[
        str, typer.Option(help="host:port for /metrics (port 0: any free one); empty for none.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Take what collectors stored into tables, exactly once. Any number may run on one lake."""
    from moulin.pipeline.nursery.nursery import Nursery

    if streaming and no_spark:
        raise InvalidInput("--streaming needs Spark: leave --no-spark out, or leave it to the nursery's own clock.")

    with open_lake(context) as lake, ending() as over:
        found = Nursery(lake, spark=not no_spark, announce=lambda text: report("note", text, as_json, note=text))
        if once:
            done = found.drain()
            _say_batch(done, as_json, always=True)
            if merge:
                _compact_all(lake, over, no_spark, as_json)
            return
        with _metrics(metrics_bind, found) as port:
            where = "" if port is None else f", with /metrics on port {port}"
            text = f"The nursery runs{where}; Ctrl-C ends it after its batch."
            report("ready", text, as_json, metrics_port=port)
            compactor = threading.Thread(
                target=_compact_until, args=(lake, over, no_spark, as_json), name="moulin-compact"
            )
            if merge:
                compactor.start()
            try:
                if streaming:
                    _stream(lake, found, interval, over, as_json)
                else:
                    every(interval, over, lambda: _say_batch(found.run_once(), as_json), busy=lambda done: done.more)
            finally:
                over.set()
                if merge:
                    compactor.join()


@contextmanager
def _metrics(bind: str, nursery: Any) -> Iterator[int | None]:
    """The figures of a nursery over HTTP. A port that is taken is reported, and the nursery runs without."""
    if not bind:
        yield None
        return
    from moulin.cli.services.metrics import metrics_at

    with ExitStack() as stack:
        try:
            port = stack.enter_context(metrics_at(bind, nursery.figures.text))
        except Unavailable as error:
            complain(f"{error.message} The nursery runs without /metrics.")
            port = None
        yield port


def _stream(lake: Lake, nursery: Any, interval: float, over: threading.Event, as_json: bool) -> None:
    from moulin.pipeline.nursery import ticker

    report("note", "Spark is starting; the first batch runs when it is there.", as_json, note="Spark is starting.")
    spark = lake.context.spark().session()
    query = ticker.start(spark, nursery, interval=interval, on_batch=lambda done: _say_batch(done, as_json))
    while not over.is_set() and query.isActive:
        over.wait(0.5)
    query.stop()
    if (failure := query.exception()) is not None:
        raise FailedPrecondition(f"The streaming query of the nursery ended: {str(failure).splitlines()[0]}")


def worker(
    context: typer.Context,
    interval: Interval = 2.0,
    once: Once = False,
    no_spark: NoSpark = False,
    as_json: Json = False,
) -> None:
    """Compact: do merge tasks as the janitor plans them, and go on with fills of columns that were killed.

    Any number may run on one lake.
    """
    with open_lake(context) as lake, ending() as over:
        if once:
            _compact_all(lake, over, no_spark, as_json)
            return
        report("ready", "The worker runs; Ctrl-C ends it and gives its task back.", as_json)
        _compact_until(lake, over, no_spark, as_json, interval)


def _compact_all(lake: Lake, over: threading.Event, no_spark: bool, as_json: bool) -> None:
    with _compacting(lake, over, no_spark, as_json) as step:
        while not over.is_set() and step() is not None:
            pass


def _compact_until(lake: Lake, over: threading.Event, no_spark: bool, as_json: bool, interval: float = 2.0) -> None:
    with _compacting(lake, over, no_spark, as_json) as step:
        every(interval, over, step, busy=lambda done: done is not None)


@contextmanager
def _compacting(lake: Lake, over: threading.Event, no_spark: bool, as_json: bool) -> Iterator[Callable[[], Any]]:
    """Does one merge task when it is called, and reports it. A running one is given back as soon as `over` is set.

    When there is none, it looks for fills now and then.
    """
    from moulin.table.compact.worker import CompactionWorker
    from moulin.table.fill.resume import resume_fills

    compactor = CompactionWorker(lake.context, f"{platform.node()} {new_id()}")
    if not no_spark:  # started when the first compaction is large enough for it
        lake.context.starts_spark = True

    next_look = 0.0

    def step() -> Any:
        nonlocal next_look
        done = compactor.run_once()
        if done is not None:
            _say_compaction(done, as_json)
        elif time.monotonic() >= next_look:
            for one in resume_fills(lake.context, over.is_set):
                text = f"Column {one.column} of {one.table} is complete, in version {one.version}."
                report("fill", text, as_json, **asdict(one))
            next_look = time.monotonic() + _FILLS_SECONDS
        return done

    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            if over.wait(_WATCH_SECONDS):
                compactor.stop()
                return

    watcher = threading.Thread(target=watch, name="moulin-stop", daemon=True)
    watcher.start()
    try:
        yield step
    finally:
        ended.set()
        watcher.join()


def janitor(context: typer.Context, once: Once = False, as_json: Json = False) -> None:
    """Enforce retention, plan compaction and clean up. One of those that run on a lake does the work."""
    loop = importlib.import_module("moulin.meta.server.janitor_loop")
    with open_lake(context) as lake, ending() as over:
        found = loop.Janitor(lake)
        try:
            if once:
                _say_janitor(found.run_once(), as_json)
                return
            report("ready", "The janitor runs; Ctrl-C ends it after its step.", as_json)
            every(lake.config.janitor_interval, over, found.run_once, busy=lambda done: False)
        finally:
            found.stop()


@contextmanager
def ending() -> Iterator[threading.Event]:
    """Set by SIGTERM and Ctrl-C, so that what is under way can end well; a second Ctrl-C ends at once."""
    over = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if over.is_set():
            raise KeyboardInterrupt
        over.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def every(interval: float, over: threading.Event, step: Callable[[], Any], *, busy: Callable[[Any], bool]) -> None:
    """Run a step again and again: at once while it is busy, else after the interval. An error is said and outlived."""
    while not over.is_set():
        try:
            again = busy(step())
        except MoulinError as error:
            complain(f"{error.message} It is tried again.")
            again = False
        except Exception as error:  # noqa: BLE001 - the loop knows how often what fails has failed, and must go on
            complain(f"{type(error).__name__}: {error}. It is tried again.")
            again = False
        if not again:
            over.wait(interval)


def _say_batch(done: Any, as_json: bool, *, always: bool = False) -> Any:
    if not (always or done.objects or done.stopped or done.trimmed):
        return done
    sentence = (
        f"{done.objects:,} baby segments ({size(done.stored_bytes)}, {size(done.raw_bytes)} of requests) became "
        f"{done.rows:,} rows in {done.segments:,} segments, at version {done.version}, in {done.seconds:.1f} s."
    )
    if done.set_aside:
        sentence += f" {done.set_aside:,} records were set aside."
    if not done.objects:
        sentence = f"{done.stopped:,} streams ended, {done.trimmed:,} baby segments were deleted."
    report(
        "batch",
        sentence,
        as_json,
        version=done.version,
        objects=done.objects,
        stored_bytes=done.stored_bytes,
        raw_bytes=done.raw_bytes,
        rows=done.rows,
        segments=done.segments,
        set_aside=done.set_aside,
        fallen_back=done.fallen_back,
        repeated_keys=done.repeated_keys,
        stopped=done.stopped,
        trimmed=done.trimmed,
        seconds=round(done.seconds, 3),
    )
    return done


def _say_compaction(done: Any, as_json: bool) -> None:
    rows = sum(facts.rows for facts in done.change.added)
    written = sum(facts.size for facts in done.change.added)
    report(
        "compaction",
        f"{len(done.group.segments):,} segments ({size(done.group.size)}) became {len(done.change.added):,} "
        f"({size(written)}) of level {done.group.level}, at version {done.version}.",
        as_json,
        version=done.version,
        segments_in=len(done.group.segments),
        segments_out=len(done.change.added),
        bytes_in=done.group.size,
        bytes_out=written,
        rows=rows,
    )


def _say_janitor(done: Any, as_json: bool) -> None:
    if done is None:
        say("Another process is the janitor now.", as_json, janitor=False)
        return
    values = {"expired_segments": sum(done.expired.values()), "planned_merges": done.tasks, "failures": done.failures}
    show_values({"janitor": True, **values}, as_json)
