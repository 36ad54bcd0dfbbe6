"""Supervised child processes: started, watched, restarted when they crash, and stopped in order."""

# Decisions: docs/decisions/0079, docs/decisions/0244

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moulin.errors import FailedPrecondition
from moulin.storage import modes

_FIRST_DELAY = 0.5
_LONGEST_DELAY = 30.0
_STEADY_SECONDS = 60.0  # a child that exits earlier has failed to start, unless it was killed
_FIRST_STARTS = 3  # give up after this many failed starts if the child never ran
_LATER_STARTS = 20  # and after this many in a row if it did: with the delays, about eight minutes
_PR_SET_PDEATHSIG = 1
LOG_BYTES = 16 << 20  # a log of this size is rotated to .1, .1 to .2, and so on
LOGS_KEPT = 3


@dataclass(slots=True)
class Child:
    """One child: Python, with the arguments in `command`. Its output goes to `log`."""

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    started_at: float = 0.0
    code: int | None = None
    failed_starts: int = 0
    has_run: bool = False
    _delay: float = field(default=_FIRST_DELAY, repr=False)
    _due: float = field(default=0.0, repr=False)

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None and self.is_alive else None

    def start(self) -> None:
        with open(self.log, "ab", opener=modes.open_private) as log:
            self.process = subprocess.Popen(
                [*_launcher(), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(self.environment),
                start_new_session=True,  # Ctrl-C reaches only the supervisor, which then stops them in order
            )
        self.started_at = time.monotonic()

    def tend(self) -> bool:
        """Restart it if it has exited and its delay is over; return whether it was."""
        if self.process is None or self.process.poll() is None:
            return False
        now = time.monotonic()
        if self._due == 0.0:  # just found dead
            self.code = self.process.returncode
            self._count(now - self.started_at)
            if now - self.started_at >= _STEADY_SECONDS:
                self._delay = _FIRST_DELAY
            self._due, self._delay = now + self._delay, min(2 * self._delay, _LONGEST_DELAY)
        if now < self._due or self.is_given_up:
            return False
        self._due = 0.0
        self.restarts += 1
        self.start()
        return True

    def rotate(self) -> None:
        """Rotate its log if it is large; the child continues to write to the same file."""
        try:
            if self.log.stat().st_size >= LOG_BYTES:
                rotate(self.log)
        except OSError:  # a full disk, or a removed folder: retried with the next check
            pass

    def _count(self, lived: float) -> None:
        if lived >= _STEADY_SECONDS:
            self.failed_starts, self.has_run = 0, True
        elif self.code not in (-signal.SIGKILL, -signal.SIGTERM):
            self.failed_starts += 1

    @property
    def is_given_up(self) -> bool:
        """Whether it failed to start so often in a row that another attempt is pointless."""
        return self.failed_starts >= (_LATER_STARTS if self.has_run else _FIRST_STARTS)

    def last_line(self) -> str:
        """The end of its output."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 2000))
                lines = log.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""


class Supervisor:
    """Starts children in order and stops them in reverse."""

    def __init__(self, children: Sequence[Child]) -> None:
        self.children = list(children)

    def start(self) -> None:
        for child in self.children:
            child.start()

    def tend(self) -> list[Child]:
        """The children restarted now. Large logs are rotated."""
        for child in self.children:
            child.rotate()
        return [child for child in self.children if child.tend()]

    def require_running(self) -> None:
        """Raise FailedPrecondition with the last output of a child that failed to start repeatedly."""
        for child in self.children:
            if child.is_given_up:
                said = child.last_line().removeprefix("Error: ") or f"it ended with {child.code}"
                raise FailedPrecondition(
                    f"{child.name} failed to start {child.failed_starts} times: {said.removesuffix('.')} "
                    f"(its log is {child.log})."
                )

    def stop(self, seconds: float = 30.0, progress: Callable[[Child], None] = lambda child: None) -> None:
        """Ask each to stop, and kill one that does not in time. Killing loses nothing."""
        for child in reversed(self.children):
            if child.process is None:
                continue
            progress(child)
            if child.is_alive:
                child.process.send_signal(signal.SIGTERM)
                try:
                    child.process.wait(seconds)
                except subprocess.TimeoutExpired:
                    child.process.kill()
            child.process.wait()


def rotate(log: Path) -> None:
    """Copy a log and truncate it. The child keeps it open for appending, so it cannot be renamed.

    A line written between the copy and the truncation is lost.
    """
    aside = [log.with_name(f"{log.name}.{number}") for number in range(1, LOGS_KEPT + 1)]
    for older, newer in zip(reversed(aside), reversed(aside[:-1]), strict=False):
        if newer.exists():
            newer.replace(older)
    with log.open("rb+") as source, open(aside[0], "wb", opener=modes.open_private) as target:
        shutil.copyfileobj(source, target)
        source.truncate(0)


def _launcher() -> list[str]:
    """The command that runs Python with the following arguments.

    If the supervisor is killed, its children end too, so that their ports are free for the next one; on Linux
    the kernel does that, and the setting survives the exec.
    """
    if sys.platform != "linux":
        return [sys.executable]
    code = (
        f"import ctypes, os, sys; ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGTERM)}); "
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    return [sys.executable, "-c", code]
