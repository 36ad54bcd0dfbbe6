"""Child processes that are kept alive: started, watched, started again when they die, and ended in order."""

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
_STEADY_SECONDS = 60.0  # one that dies before has failed to start, unless somebody killed it; else it starts afresh
_FIRST_STARTS = 3  # so many that fail are the end when the child never ran
_LATER_STARTS = 20  # and so many in a row when it did: with the delays, about eight minutes
_PR_SET_PDEATHSIG = 1
LOG_BYTES = 16 << 20  # a log that has grown to this is moved to .1, which was moved to .2 before, and so on
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
                start_new_session=True,  # Ctrl-C reaches the supervisor alone, which then ends them in order
            )
        self.started_at = time.monotonic()

    def tend(self) -> bool:
        """Start it again when it died and its delay is over; whether it was."""
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
        """Move what its log holds aside when it has grown large; the child goes on writing at the log's new end."""
        try:
            if self.log.stat().st_size >= LOG_BYTES:
                rotate(self.log)
        except OSError:  # a full disk, or a folder that was taken away: tried again with the next look
            pass

    def _count(self, lived: float) -> None:
        if lived >= _STEADY_SECONDS:
            self.failed_starts, self.has_run = 0, True
        elif self.code not in (-signal.SIGKILL, -signal.SIGTERM):
            self.failed_starts += 1

    @property
    def is_given_up(self) -> bool:
        """Whether it failed to start so often in a row that another start will not help."""
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
    """Starts children in order and ends them in the opposite one."""

    def __init__(self, children: Sequence[Child]) -> None:
        self.children = list(children)

    def start(self) -> None:
        for child in self.children:
            child.start()

    def tend(self) -> list[Child]:
        """Those that were started again just now. Logs that have grown large are rotated."""
        for child in self.children:
            child.rotate()
        return [child for child in self.children if child.tend()]

    def require_running(self) -> None:
        """Raises FailedPrecondition, with what a child printed last, when it failed to start again and again."""
        for child in self.children:
            if child.is_given_up:
                said = child.last_line().removeprefix("Error: ") or f"it ended with {child.code}"
                raise FailedPrecondition(
                    f"{child.name} failed to start {child.failed_starts} times: {said.removesuffix('.')} "
                    f"(its log is {child.log})."
                )

    def stop(self, seconds: float = 30.0, progress: Callable[[Child], None] = lambda child: None) -> None:
        """Ask each to end; kill one that does not in time. Whatever it was at, nothing is lost by that."""
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
    """Copy a log aside and empty it. Whoever writes to it keeps it open for appending, so it cannot be renamed.

    A line that is written in the moment between the end of the copy and the cut is lost.
    """
    aside = [log.with_name(f"{log.name}.{number}") for number in range(1, LOGS_KEPT + 1)]
    for older, newer in zip(reversed(aside), reversed(aside[:-1]), strict=False):
        if newer.exists():
            newer.replace(older)
    with log.open("rb+") as source, open(aside[0], "wb", opener=modes.open_private) as target:
        shutil.copyfileobj(source, target)
        source.truncate(0)


def _launcher() -> list[str]:
    """What runs Python with the arguments that follow.

    A supervisor that is killed takes its children along, so that the next one does not find their ports taken; on Linux
    the kernel sees to it, and remembers when the launcher becomes the child.
    """
    if sys.platform != "linux":
        return [sys.executable]
    code = (
        f"import ctypes, os, sys; ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGTERM)}); "
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    return [sys.executable, "-c", code]
