"""Child processes that run statements: started with the first one, killed if they do not respond, restarted with the
next.

A child opens the lake itself, with a read-only token. When the server ends, its socket closes, and the child ends too.
"""

# Decisions: docs/decisions/0650, docs/decisions/0740

from __future__ import annotations

import logging
import os
import queue
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import msgspec

from moulin import errors
from moulin.console.sql.wire import Asked, Cancel, Channel, Failed, Opening, Progress, Ready, Said, server_channel
from moulin.errors import Closed, FailedPrecondition, MoulinError, Unavailable

log = logging.getLogger("moulin.console.sql")
Step = Literal["starting", "running"]
START_SECONDS: Final = 180.0
"""How long a child may take to open the lake; Spark starts in it."""
GRACE_SECONDS: Final = 4.0
"""How long a statement may take to end once it is cancelled. After that its child is killed."""
IDLE_SECONDS: Final = 900.0
_LOOK_SECONDS: Final = 0.05
_LAST_BYTES: Final = 2000


@dataclass(frozen=True)
class Recipe:
    """How to start a child of an engine, how many statements it runs at a time, and how much memory it may hold."""

    command: Sequence[str]
    environment: Mapping[str, str]
    opening: Callable[[], Opening]
    at_once: int = 1
    memory_bytes: float = float("inf")


@dataclass
class Work:
    """A task while a child does it. `cancelled` is set to cancel it."""

    ask: Asked
    id: str
    seconds: float
    cancelled: threading.Event
    on_state: Callable[[Step], None]
    on_progress: Callable[[float], None]


class _Gone(Exception):
    """The child has ended, and so has the task."""


class Child:
    """One process. `give` may be called by several threads."""

    def __init__(self, engine: str, recipe: Recipe) -> None:
        self.engine, self.recipe = engine, recipe
        self.busy = 0
        self.idle_since = time.monotonic()
        self._inboxes: dict[str, queue.SimpleQueue[Said | None]] = {}
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._failed: MoulinError | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="moulin-sql-"))
        self._log = self._folder / "log"
        ours, theirs = socket.socketpair()
        environment = {**recipe.environment, "TMPDIR": str(self._folder)}
        with theirs, open(self._log, "ab") as out:
            self.process = subprocess.Popen(
                [*recipe.command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environment,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._end = ours
        self._channel: Channel[Said] = server_channel(ours)
        self._listener = threading.Thread(target=self._listen, name=f"moulin-sql-{engine}", daemon=True)
        self._listener.start()
        with suppress(OSError):
            self._channel.send(msgspec.structs.replace(recipe.opening(), folder=str(self._folder)))

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None and self._failed is None

    def wait_until_ready(self, cancelled: threading.Event) -> bool:
        """False when somebody cancelled. Raises what the child said, or Unavailable when it ended without a word."""
        end = time.monotonic() + START_SECONDS
        while not self._ready.wait(_LOOK_SECONDS):
            if cancelled.is_set():
                return False
            if self.process.poll() is not None and not self._ready.wait(_LOOK_SECONDS):
                self._failed = self._failed or self._death()
            if time.monotonic() > end:
                self.kill()
                self._failed = Unavailable(f"{self.engine} did not start in {START_SECONDS:g} seconds: try again.")
            if self._failed is not None:
                raise self._failed
        if self._failed is not None:
            raise self._failed
        return True

    def give(self, work: Work) -> Said:
        """Have a task done; the last answer. A task that is cancelled, or takes too long, ends in some seconds."""
        inbox: queue.SimpleQueue[Said | None] = queue.SimpleQueue()
        with self._lock:
            self._inboxes[work.id] = inbox
        try:
            self._channel.send(work.ask)
            return self._wait(work, inbox)
        except (OSError, _Gone):
            self.kill()
            if work.cancelled.is_set():
                raise Closed("The statement was cancelled.") from None
            raise self._failed or self._death() from None
        finally:
            with self._lock:
                del self._inboxes[work.id]

    def _wait(self, work: Work, inbox: queue.SimpleQueue[Said | None]) -> Said:
        end = time.monotonic() + work.seconds
        kill_at = float("inf")
        too_long = False
        while True:
            now = time.monotonic()
            if kill_at == float("inf") and (now > end or work.cancelled.is_set()):
                too_long, kill_at = now > end and not work.cancelled.is_set(), now + GRACE_SECONDS
                self._channel.send(Cancel(work.id))
            if now > kill_at:
                log.warning("a statement did not end when it was cancelled", extra={"engine": self.engine})
                self._failed = Unavailable(f"{self.engine} was ended, since a statement did not stop: run it again.")
                self.kill()
            if resident_bytes(self.process.pid) > self.recipe.memory_bytes:
                log.warning("a statement took too much memory", extra={"engine": self.engine})
                self._failed = Unavailable("The statement took too much memory, and was stopped: ask for less at once.")
                self.kill()
            try:
                said = inbox.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            if isinstance(said, Progress):
                work.on_progress(said.part)
                continue
            if too_long and (said is None or isinstance(said, Failed)):
                raise Unavailable(f"The statement took longer than {work.seconds:g} seconds, and was stopped.")
            if said is None:
                raise _Gone
            return said

    def _listen(self) -> None:
        try:
            while (said := self._channel.receive()) is not None:
                if isinstance(said, Ready):
                    self._ready.set()
                elif isinstance(said, Failed) and not said.id:
                    self._failed = error_of(said)
                    break
                else:
                    with self._lock:
                        inbox = self._inboxes.get(said.id)
                    if inbox is not None:
                        inbox.put(said)
        except ValueError as error:
            log.error("a child said what it must not", extra={"engine": self.engine, "error": str(error)})
        finally:
            self.kill()
            with self._lock:
                for inbox in self._inboxes.values():
                    inbox.put(None)

    def kill(self) -> None:
        """End it and all that it started, now."""
        with suppress(OSError):
            if self.process.returncode is None:
                os.killpg(self.process.pid, signal.SIGKILL)  # the JVM of Spark is in its group
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)

    def bury(self) -> None:
        """Wait for its end, and delete its folder."""
        self.kill()
        self.process.wait()
        self._listener.join()
        self._channel.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _death(self) -> MoulinError:
        code = self.process.wait()
        log.error("a child died", extra={"engine": self.engine, "code": code, "said": self._last_line()})
        why = "it was killed, perhaps for want of memory" if code < 0 else f"it ended with {code}"
        return Unavailable(
            f"The process that ran {self.engine} is gone ({why}): run the statement again, with less of it."
        )

    def _last_line(self) -> str:
        try:
            lines = self._log.read_bytes()[-_LAST_BYTES:].decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""


def resident_bytes(pid: int) -> int:
    """The memory that a process holds; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def error_of(failed: Failed) -> MoulinError:
    """What a child reports, as the error that was raised there."""
    kind = getattr(errors, failed.kind, None)
    if kind is errors.InvalidInput:
        return errors.InvalidInput(failed.message, line=failed.line, column=failed.column)
    if isinstance(kind, type) and issubclass(kind, MoulinError):
        return kind(failed.message)
    return Unavailable(failed.message)


class Children:
    """The children of a server. Thread-safe."""

    def __init__(self, recipes: Mapping[str, Recipe], on_close: Callable[[], None] = lambda: None) -> None:
        self.recipes = recipes
        self._on_close = on_close
        self._lock = threading.Lock()
        self._children: list[Child] = []
        self._closed = False

    def do(self, engine: str, work: Work) -> Said:
        """Have a child do a task. REQUIRES: no more tasks at a time than children should run."""
        child = self._take(engine)
        try:
            work.on_state("starting")
            if not child.wait_until_ready(work.cancelled):
                raise Closed("The statement was cancelled.")
            work.on_state("running")
            return child.give(work)
        finally:
            self._give_back(child)

    def _take(self, engine: str) -> Child:
        with self._lock:
            if self._closed:
                raise Closed("The server stops.")
            self._sweep()
            free = [one for one in self._children if one.engine == engine and one.busy < one.recipe.at_once]
            if free:
                child = min(free, key=lambda one: one.busy)
            else:
                try:
                    child = Child(engine, self.recipes[engine])
                except OSError as error:
                    raise FailedPrecondition(f"{engine} cannot be started: {error.strerror}.") from None
                self._children.append(child)
            child.busy += 1
            return child

    def _give_back(self, child: Child) -> None:
        with self._lock:
            child.busy -= 1
            child.idle_since = time.monotonic()
            self._sweep()

    def _sweep(self) -> None:
        """Remove ended children, and end those unused for long."""
        now = time.monotonic()
        for child in list(self._children):
            idle = child.busy == 0 and now - child.idle_since > IDLE_SECONDS
            if child.busy == 0 and (idle or not child.is_alive):
                self._children.remove(child)
                threading.Thread(target=child.bury, name="moulin-sql-bury", daemon=True).start()
            elif not child.is_alive and child in self._children:
                child.recipe = replace(child.recipe, at_once=0)  # it takes no more

    def tend(self) -> None:
        """End children unused for long."""
        with self._lock:
            self._sweep()

    def pids(self, engine: str) -> list[int]:
        with self._lock:
            return [one.process.pid for one in self._children if one.engine == engine and one.is_alive]

    def close(self) -> None:
        """End all of them; what runs fails."""
        with self._lock:
            self._closed = True
            found, self._children = self._children, []
        for child in found:
            child.bury()
        self._on_close()
