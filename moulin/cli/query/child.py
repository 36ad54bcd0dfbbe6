"""The child process that runs statements of the console: `python -m moulin.cli.query.child N`; N is the descriptor of a
socket.

It opens the lake with a read-only token, runs safe statements, and ends with the server.
"""

# Decisions: docs/decisions/0650

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

import moulin
from moulin.console.sql.sizes import require_few_columns, size, that_fits
from moulin.console.sql.wire import (
    Asked,
    Cancel,
    Channel,
    Explain,
    Failed,
    Opening,
    Plan,
    PlanStep,
    Progress,
    Ready,
    Rows,
    Run,
    TableShare,
    child_channel,
)
from moulin.errors import Closed, InvalidInput, MoulinError, PermissionDenied, Unavailable
from moulin.model.query_plan import QueryPlan, Step

_LOOK_SECONDS: Final = 0.25
_ENDING_SECONDS: Final = 0.2
_FIRST_TO_GO: Final = b"500"


class Engine(Protocol):
    """Runs safe statements. Each has an id, so that another thread can cancel it."""

    def run(self, ask: Run) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
        """Reads at most one row more than requested, to know if there are more."""

    def plan(self, ask: Explain) -> QueryPlan: ...
    def cancel(self, id: str) -> None: ...
    def progress(self, id: str) -> float | None: ...
    def has_ended(self) -> bool:
        """Whether the engine has crashed; checked after a failure."""


class DuckEngine:
    """One statement at a time."""

    def __init__(self, opening: Opening) -> None:
        from moulin.duck.safe import SafeDuck

        self._duck = SafeDuck(_connect(opening), Path(opening.folder), memory_bytes=opening.memory_bytes)
        self._running: str | None = None

    def run(self, ask: Run) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
        with self._as_running(ask.id):
            schema, batches = self._duck.run(ask.text, ask.version)
        return schema, self._read(ask.id, batches)

    def _read(self, id: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self._as_running(id):
            yield from batches

    def plan(self, ask: Explain) -> QueryPlan:
        with self._as_running(ask.id):
            return self._duck.plan(ask.text, ask.version)

    def cancel(self, id: str) -> None:
        """Repeatedly: DuckDB interrupts only a running statement, and this one may not have started yet."""
        while self._running == id:
            self._duck.cancel()
            time.sleep(_LOOK_SECONDS / 5)

    def progress(self, id: str) -> float | None:
        return self._duck.progress() if self._running == id else None

    def has_ended(self) -> bool:
        return False  # without this process

    @contextmanager
    def _as_running(self, id: str) -> Iterator[None]:
        self._running = id
        try:
            yield
        except KeyboardInterrupt:  # DuckDB was interrupted
            raise Closed("The statement was cancelled.") from None
        finally:
            self._running = None


class SparkEngine:
    """Several statements at a time, in one JVM, which starts with the process."""

    def __init__(self, opening: Opening) -> None:
        from moulin.pipeline.safe_spark import SafeSpark, start

        spark = start(2 * opening.result_bytes)
        self._spark = SafeSpark(_connect(opening, spark), spark)
        threading.Thread(target=self._end_with_it, name="end", daemon=True).start()
        self._spark.warm_up()

    def _end_with_it(self) -> None:
        """The process cannot work without its JVM."""
        self._spark.wait_for_end()
        os._exit(1)

    def run(self, ask: Run) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
        return self._spark.run(ask.id, ask.text, ask.rows + 1, ask.version)

    def plan(self, ask: Explain) -> QueryPlan:
        return self._spark.plan(ask.id, ask.text, ask.version)

    def cancel(self, id: str) -> None:
        self._spark.cancel(id)

    def progress(self, id: str) -> float | None:
        return self._spark.progress(id)

    def has_ended(self) -> bool:
        return self._spark.wait_for_end(_ENDING_SECONDS)


_ENGINES: Final[dict[str, Callable[[Opening], Engine]]] = {"duckdb": DuckEngine, "spark": SparkEngine}


def _connect(opening: Opening, spark: Any = None) -> moulin.Lake:
    return moulin.connect(
        opening.address,
        token=opening.token,
        storage_options=opening.storage_options or None,
        base_options=opening.base_options,
        spark=spark,
    )


class Server:
    """Handles the requests of the server."""

    def __init__(self, channel: Channel[Asked], opening: Opening) -> None:
        self._channel, self._result_bytes = channel, opening.result_bytes
        self._engine: Engine = _ENGINES[opening.engine](opening)
        self._at_work: set[str] = set()

    def serve(self) -> None:
        self._channel.send(Ready())
        while (ask := self._channel.receive()) is not None:
            if isinstance(ask, Cancel):
                threading.Thread(target=self._engine.cancel, args=(ask.id,), daemon=True).start()
            elif isinstance(ask, Run | Explain):
                threading.Thread(target=self._do, args=(ask,), name="statement", daemon=True).start()

    def _do(self, ask: Run | Explain) -> None:
        self._at_work.add(ask.id)
        threading.Thread(target=self._report, args=(ask.id,), name="progress", daemon=True).start()
        said: Rows | Plan | Failed
        try:
            said = self._rows(ask) if isinstance(ask, Run) else _plan(ask.id, self._engine.plan(ask))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the server waits for an answer
            if not isinstance(error, PermissionDenied) and self._engine.has_ended():
                os._exit(1)  # which says more than the error
            said = _failed(ask.id, error)
        finally:
            self._at_work.discard(ask.id)
        with suppress(OSError):
            self._channel.send(said)

    def _rows(self, ask: Run) -> Rows:
        schema, batches = self._engine.run(ask)
        require_few_columns(schema)
        sink, left, taken, cut = pa.BufferOutputStream(), ask.rows, 0, False
        more = False
        with pa.ipc.new_stream(sink, schema) as stream:
            for batch in batches:
                more = batch.num_rows > left
                part = batch.slice(0, left)
                room = self._result_bytes - taken
                if size(part) > room:
                    part, cut = that_fits(part, room), True
                if part.num_rows:
                    stream.write_batch(part)
                taken, left = taken + size(part), left - part.num_rows
                if more or cut:
                    break
        return Rows(ask.id, sink.getvalue().to_pybytes(), more or cut, cut)

    def _report(self, id: str) -> None:
        told = None
        while id in self._at_work:
            time.sleep(_LOOK_SECONDS)
            with suppress(Exception):
                part = self._engine.progress(id)
                if part is not None and part != told and id in self._at_work:
                    self._channel.send(Progress(id, part))
                    told = part


def _plan(id: str, plan: QueryPlan) -> Plan:
    shares = [TableShare(one.name, one.read, one.total) for one in plan.shares]
    return Plan(id, [_step(one) for one in plan.steps], shares)


def _step(one: Step) -> PlanStep:
    return PlanStep(one.name, list(one.details), [_step(each) for each in one.inputs])


def _failed(id: str, error: BaseException) -> Failed:
    if isinstance(error, InvalidInput):
        return Failed(id, "InvalidInput", error.message, error.line, error.column)
    if isinstance(error, MoulinError):
        return Failed(id, type(error).__name__, error.message)
    traceback.print_exception(error)
    return Failed(id, Unavailable.__name__, f"Unexpected error of the engine: {type(error).__name__}.")


def _go_first() -> None:
    """Make the kernel kill this process, not the server, if memory runs out."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_bytes(_FIRST_TO_GO)


def main() -> None:
    _go_first()
    channel = child_channel(socket.socket(fileno=int(sys.argv[1])))
    opening = channel.receive()
    if isinstance(opening, Opening):
        try:
            server = Server(channel, opening)
        except BaseException as error:  # noqa: BLE001 - the server waits for an answer
            channel.send(_failed("", error))
        else:
            server.serve()
        shutil.rmtree(opening.folder, ignore_errors=True)  # a server that was killed cannot do it
    os._exit(0)  # threads that run statements are not waited for


if __name__ == "__main__":
    main()
