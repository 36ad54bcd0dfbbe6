"""Operations: statements that run in their own threads, with results buffered for the client.

A client that loses its connection reattaches and continues after the last response that it has. It releases responses
as it reads them; an operation is deleted when everything was released, when its session ends, or some minutes after its
last use.
"""

# Decisions: docs/decisions/0266

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from uuid import uuid4

import pyspark.sql.connect.proto as pb
from pyspark.sql import SparkSession

from moulin.catalog.sql.pool import gave_up
from moulin.errors import FailedPrecondition, InvalidInput, MoulinError, NotFound, Unavailable
from moulin.sql_server.errors import named

log = logging.getLogger("moulin.sql_server")
FORGET_SECONDS: Final = 600.0
_WAIT_SECONDS = 1.0
_CANCEL_SECONDS = 0.2
_CANCELLED = "[OPERATION_CANCELED] The statement was cancelled."


class Operation:
    """One statement. Thread-safe."""

    def __init__(self, id: str, tags: Iterable[str], spark: SparkSession) -> None:
        self.id, self.tags = id, frozenset(tags)
        self._spark, self._group = spark, f"moulin-{uuid4()}"
        self._answers: list[pb.ExecutePlanResponse] = []
        self._bytes = 0
        self._released = 0  # how many answers there were before the first that is kept
        self._error: Exception | None = None
        self._done = self._stopped = False
        self._changed = threading.Condition()
        self.asked = time.monotonic()

    @property
    def done(self) -> bool:
        return self._done

    @property
    def kept_bytes(self) -> int:
        """Of answers that its client has not released."""
        return self._bytes

    def run(self, make: Callable[[], Iterable[pb.ExecutePlanResponse]]) -> None:
        """Do the work and keep its answers. Runs in a thread of its own."""
        context = self._spark.sparkContext
        context.setJobGroup(self._group, "a statement of the SQL server", interruptOnCancel=True)
        token = gave_up.set(lambda: self._stopped)  # what runs without Spark begins no slice then, and commits nothing
        try:
            if self._stopped:  # while it waited for a thread
                raise FailedPrecondition(_CANCELLED)
            for answer in make():
                self._add(answer)
                if self._stopped and not answer.HasField("sql_command_result"):  # with which a command has ended
                    raise FailedPrecondition(_CANCELLED)
            self._add(pb.ExecutePlanResponse(result_complete=pb.ExecutePlanResponse.ResultComplete()))
            self._end(None)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets it
            self._end(FailedPrecondition(_CANCELLED) if self._stopped else named(error))
        finally:
            gave_up.reset(token)
            context.setJobGroup("", "")

    def interrupt(self) -> bool:
        """Cancel what runs; False when it has ended.

        A change is committed as a whole or not at all. One that is committed all the same ends as if it had not been
        interrupted.
        """
        with self._changed:
            if self._done:
                return False
            self._stopped = True
        threading.Thread(target=self._cancel, name="moulin-sql-cancel", daemon=True).start()
        return True

    def _cancel(self) -> None:
        """Again and again: Spark cancels jobs that run, and the next one may be about to start."""
        while True:
            self._spark.sparkContext.cancelJobGroup(self._group)
            with self._changed:
                if self._changed.wait_for(lambda: self._done, _CANCEL_SECONDS):
                    return

    def answers(self, after: str, is_active: Callable[[], bool]) -> Iterator[pb.ExecutePlanResponse]:
        """The answers after one, or all that are kept. Raises the error of the operation."""
        position = self._position(after)
        while True:
            with self._changed:
                self.asked = time.monotonic()
                while position >= self._released + len(self._answers) and not self._done:
                    if not is_active():
                        return
                    self._changed.wait(_WAIT_SECONDS)
                    self.asked = time.monotonic()
                index = position - self._released
                answer = self._answers[index] if 0 <= index < len(self._answers) else None
            if answer is None:
                break
            yield answer
            position += 1
        if self._error is not None:
            raise self._error

    def release(self, until: str) -> None:
        """Forget the answers up to one of them, which the client has."""
        with self._changed:
            number = int(until) if until.isdecimal() else -1
            count = number + 1 - self._released
            if 0 < count <= len(self._answers):
                self._bytes -= sum(answer.ByteSize() for answer in self._answers[:count])
                del self._answers[:count]
                self._released += count

    def _position(self, after: str) -> int:
        if not after:
            return 0
        position = int(after) + 1 if after.isdecimal() and len(after) < 19 else -1
        with self._changed:
            if not self._released <= position <= self._released + len(self._answers):
                raise InvalidInput("[INVALID_CURSOR.POSITION_NOT_AVAILABLE] That answer was released: run it again.")
        return position

    def _add(self, answer: pb.ExecutePlanResponse) -> None:
        with self._changed:
            answer.response_id = str(self._released + len(self._answers))
            answer.operation_id = self.id
            self._answers.append(answer)
            self._bytes += answer.ByteSize()
            self._changed.notify_all()

    def _end(self, error: Exception | None) -> None:
        if error is not None and not isinstance(error, MoulinError):
            log.error("operation failed", exc_info=error)
            error = Unavailable("Unexpected error of the server; see its log.")
        with self._changed:
            self._error, self._done = error, True
            self._changed.notify_all()


class Operations:
    """The operations of one session. Thread-safe."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._operations: dict[str, Operation] = {}

    def add(self, operation: Operation) -> None:
        with self._lock:
            if operation.id in self._operations:
                raise FailedPrecondition(f"[INVALID_HANDLE.OPERATION_ALREADY_EXISTS] Operation {operation.id} runs.")
            self._operations[operation.id] = operation

    def get(self, id: str) -> Operation:
        with self._lock:
            found = self._operations.get(id)
        if found is None:
            raise NotFound(f"[INVALID_HANDLE.OPERATION_NOT_FOUND] Operation {id} does not exist in this session.")
        return found

    def find(self, wanted: Callable[[Operation], bool]) -> list[Operation]:
        with self._lock:
            return [one for one in self._operations.values() if wanted(one)]

    def forget(self, id: str) -> None:
        """Cancel an operation if it still runs, and let go of it."""
        with self._lock:
            found = self._operations.pop(id, None)
        if found is not None:
            found.interrupt()

    def forget_old(self, now: float) -> None:
        for one in self.find(lambda one: now - one.asked > FORGET_SECONDS):
            self.forget(one.id)

    def close(self) -> None:
        for one in self.find(lambda one: True):
            self.forget(one.id)
