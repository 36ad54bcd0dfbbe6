"""All processes of a lake under load: what starts them, kills them and starts them again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.commands import fork, run_command

ROLES = ("server", "collector", "nursery", "worker", "janitor")
SETTINGS = {
    "STREAM_FLUSH_SECONDS": "0.02",
    "COLLECTOR_PATIENCE": "2",
    "STREAM_TIMEOUT": "3",
    "STREAM_KEEP_ALIVE": "1",
    "BLOB_KEEP": "0.5",
    "CHECKPOINT_KEEP": "0.5",
    "MERGE_MIN_INPUTS": "2",
    "MERGE_LEASE_SECONDS": "1",
    "MERGE_BACKOFF": "0.1",
    "JANITOR_INTERVAL": "0.2",
    "JANITOR_LEASE": "1",
    "GC_INTERVAL": "1",
    "BYTE_FLOOR": "1",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Fleet:
    """One process for each role. `lake` are the options before the command; the collector goes through the server."""

    lake: Sequence[str]
    storage: Sequence[str]
    logs: Path
    serve_port: int = field(default_factory=free_port)
    otlp_port: int = field(default_factory=free_port)
    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROLES, 0))
    _running: dict[str, multiprocessing.process.BaseProcess] = field(default_factory=dict)

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.otlp_port}"

    def start(self, role: str) -> None:
        settings = {f"MOULIN_{name}": value for name, value in SETTINGS.items()}
        self._running[role] = fork(run_command, self._arguments(role), settings, str(self.logs / f"{role}.log"))

    def kill(self, role: str) -> None:
        """kill -9, and a successor at once."""
        process = self._running[role]
        assert process.pid is not None
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            self.kills[role] += 1
        self.start(role)

    def stop(self) -> None:
        """kill -9 of all, without successors."""
        for process in self._running.values():
            process.kill()
            process.join()
        self._running.clear()

    def start_all(self) -> None:
        """The server first; the others when it answers."""
        self.start("server")
        end = time.monotonic() + 60
        while not _listens(self.serve_port):
            assert time.monotonic() < end, self.said()
            self.revive()
            time.sleep(0.05)
        for role in ROLES[1:]:
            self.start(role)

    def refused(self, role: str, seconds: float = 30.0) -> str:
        """What a role says that must not start."""
        log = self.logs / f"{role}.log"
        before = len(log.read_text())
        self.start(role)
        process = self._running.pop(role)
        process.join(seconds)
        said = log.read_text()[before:]
        assert process.exitcode not in (None, 0), said
        return " ".join(said.split())

    def revive(self) -> None:
        """Start what ended by itself, as a supervisor does: a collector that found no server, for instance."""
        for role, process in list(self._running.items()):
            if not process.is_alive():
                self.start(role)

    def end(self, role: str, seconds: float = 20.0) -> int | None:
        """SIGTERM; its exit code."""
        process = self._running.pop(role)
        process.terminate()
        process.join(seconds)
        return process.exitcode

    def said(self) -> str:
        """The last lines of each log."""
        return "\n".join(f"{log.name}: {log.read_text()[-600:]}" for log in sorted(self.logs.glob("*.log")))

    def _arguments(self, role: str) -> list[str]:
        through_server = ["--lake", f"grpc://127.0.0.1:{self.serve_port}", *self.storage]
        return {
            "server": [*self.lake, *self.storage, "serve", "--bind", f"127.0.0.1:{self.serve_port}", "--http-bind", ""],
            "collector": [*through_server, "collect", "--grpc-port", str(self.otlp_port), "--http-port", "0"],
            "nursery": [*self.lake, *self.storage, "nursery", "--no-spark", "--interval", "0.02"],
            "worker": [*self.lake, *self.storage, "worker", "--no-spark", "--interval", "0.05"],
            "janitor": [*self.lake, *self.storage, "janitor"],
        }[role]


@contextmanager
def fleet(lake: Sequence[str], storage: Sequence[str], logs: Path) -> Iterator[Fleet]:
    """A fleet whose server answers; all of it is killed when the block ends."""
    logs.mkdir()
    made = Fleet(lake, storage, logs)
    try:
        made.start_all()
        yield made
    finally:
        made.stop()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
