"""`moulin nursery`, `moulin worker`, `moulin janitor`: the processes of the pipeline."""

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

Interval = Annotated[float, typer.Option(min=0.0, help="Seconds between two rounds.")]
Once = Annotated[bool, typer.Option("--once", help="Do the pending work, then exit.")]
_WATCH_SECONDS = 0.1
_FILLS_SECONDS = 30.0  # between two searches for interrupted fills
NoSpark = Annotated[bool, typer.Option("--no-spark", help="Run everything in this process, without Spark.")]


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("moulin nursery", "moulin nursery --once --no-spark"))(nursery)
    app.command(epilog=examples("moulin worker", "moulin worker --once --no-spark"))(worker)
    app.command(epilog=examples("moulin janitor --once"))(janitor)


def nursery(
    context: typer.Context,
    interval: Interval = 2.0,
    once: Once = False,
    no_spark: NoSpark = False,
    merge: Annotated[bool, typer.Option("--merge", help="Also run merge tasks (compactions) in this process.")] = False,
    streaming: Annotated[
        bool,
        typer.Option("--streaming", help="Trigger batches with Structured Streaming, to see progress in Spark's UI."),
    ] = False,
    metrics_bind: Annotated[
        str, typer.Option(help="host:port for /metrics (port 0: any free one); empty for none.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Load what collectors stored into tables, exactly once. Several may run on one lake."""
    from moulin.pipeline.nursery.nursery import Nursery

    if streaming and no_spark:
        raise InvalidInput("--streaming needs Spark: remove --no-spark, or remove --streaming.")

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
            text = f"The nursery is running{where}; Ctrl-C stops it after its batch."
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
    """Serve the metrics of a nursery over HTTP. If the port is in use, warn and run without."""
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

    report("note", "Spark is starting; the first batch runs when it is ready.", as_json, note="Spark is starting.")
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
    """Run the merge tasks (compactions) that the janitor plans, and resume interrupted column fills.

    Any number may run on one lake.
    """
    with open_lake(context) as lake, ending() as over:
        if once:
            _compact_all(lake, over, no_spark, as_json)
            return
        report("ready", "The worker is running; Ctrl-C stops it and gives its task back.", as_json)
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
    """Runs one merge task per call, and reports it. A running task is given back when `over` is set.

    If there is none, it looks for interrupted fills from time to time.
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
    """Enforce retention, plan compaction and clean up. If several run on one lake, one of them is active."""
    loop = importlib.import_module("moulin.meta.server.janitor_loop")
    with open_lake(context) as lake, ending() as over:
        found = loop.Janitor(lake)
        try:
            if once:
                _say_janitor(found.run_once(), as_json)
                return
            report("ready", "The janitor is running; Ctrl-C stops it after its step.", as_json)
            every(lake.config.janitor_interval, over, found.run_once, busy=lambda done: False)
        finally:
            found.stop()


@contextmanager
def ending() -> Iterator[threading.Event]:
    """Set by SIGTERM and Ctrl-C, so that running work can finish; a second Ctrl-C exits at once."""
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
    """Run a step in a loop: at once while there is work, else after the interval.

    Errors are printed; the loop continues.
    """
    while not over.is_set():
        try:
            again = busy(step())
        except MoulinError as error:
            complain(f"{error.message} Retrying.")
            again = False
        except Exception as error:  # noqa: BLE001 - the loop knows how often what fails has failed, and must go on
            complain(f"{type(error).__name__}: {error}. Retrying.")
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
