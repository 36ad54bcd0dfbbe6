"""`moulin ...` in processes of their own that start at once: forked from a server that has imported everything.

What runs in them is the command line, as a user starts it. An import takes seconds, and crash tests start many.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

PRELOADED = [
    "moulin.cli.main",
    "moulin.catalog.catalog",
    "moulin.iceberg.rest.app",
    "moulin.ingest.collector.collector",
    "moulin.ingest.collector.service",
    "moulin.meta.client.client",
    "moulin.meta.server.janitor_loop",
    "moulin.meta.server.serve",
    "moulin.mirror",
    "moulin.pipeline.nursery.nursery",
    "moulin.table.compact.worker",
    "psycopg",
    "tests.oracle",
]


def fork(target: Callable[..., None], *arguments: Any) -> multiprocessing.process.BaseProcess:
    """Runs a function of some module in a new process; one that is left over ends with the tests."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_watched, args=(target, *arguments), daemon=True)
    process.start()
    return process


def _watched(target: Callable[..., None], *arguments: Any) -> None:
    """Run in a forked process, with the deletion oracle: what it sees goes to the file that a variable names."""
    from tests import oracle

    oracle.install()
    target(*arguments)


def run_command(arguments: Sequence[str], environment: Mapping[str, str], out: str) -> None:
    """Run in a forked process: `moulin` with these arguments; what it prints goes to the file `out`."""
    os.environ.update(environment)
    output = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = ["moulin", *arguments]
    from moulin.cli.main import main

    main()


class Command:
    """One that runs; killed when the block ends."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        number, name = tempfile.mkstemp(prefix="moulin-command-")
        os.close(number)
        self._out = Path(name)
        self._process = fork(run_command, arguments, {**os.environ, **(environment or {})}, name)
        assert self._process.pid is not None
        self.pid = self._process.pid

    def said(self) -> str:
        """All that it printed so far."""
        return self._out.read_text()

    def wait_until(self, is_so: Callable[[], object], seconds: float = 60.0) -> None:
        """Until something is so; fails when the command ends before."""
        end = time.monotonic() + seconds
        while not is_so():
            assert self._process.is_alive() or is_so(), f"it ended with {self._process.exitcode}: {self.said()}"
            assert time.monotonic() < end, f"in vain: {self.said()}"
            time.sleep(0.005)

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.join()

    def terminate(self, seconds: float = 20.0) -> int | None:
        """SIGTERM; its exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds: float = 60.0) -> int | None:
        """Its exit code, None when it did not end in time."""
        self._process.join(seconds)
        return self._process.exitcode

    def __enter__(self) -> Command:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._out.unlink()
