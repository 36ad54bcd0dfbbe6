"""Sessions of clients: each belongs to one token. Session ids of other tokens are unknown.

The user in a message is ignored: the token identifies the caller.
"""

# Decisions: docs/decisions/0266

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final
from uuid import UUID, uuid4

from moulin.errors import FailedPrecondition, InvalidInput, NotFound, Unavailable
from moulin.meta.auth import Caller
from moulin.pipeline.connect.session import ConnectSession
from moulin.sql_server.operations import Operations

MAX_SESSIONS: Final = 64
"""Of one token at a time."""
IDLE_SECONDS: Final = 3600.0
MAX_KEPT: Final = 1000
MAX_KEPT_BYTES: Final = 256 << 20
"""How many operations that have ended a token has, and how many bytes of their answers, before the next one starts."""


class ClientSession:
    """One session, its operations, and when it was last used."""

    def __init__(self, id: str, connect: ConnectSession) -> None:
        self.id, self.server_side_id = id, str(uuid4())
        self.connect = connect
        self.operations = Operations(id)
        self.used = time.monotonic()


class Sessions:
    """All sessions of a server. Thread-safe."""

    def __init__(self, make: Callable[[Caller], ConnectSession]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._sessions: dict[tuple[Caller, str], ClientSession] = {}  # by token and role
        self._making = threading.Lock()

    def open(self, caller: Caller, id: str, observed: str = "") -> ClientSession:
        """The caller's session of this id, made when there is none.

        `observed` is the id that the server gave it, if the client has one: a session that ended is not made again.
        """
        self._sweep()
        _check_id(id)
        found = self._find(caller, id)
        if found is None:
            if observed:
                raise FailedPrecondition("[INVALID_HANDLE.SESSION_CLOSED] The session has ended: connect again.")
            with self._making:
                found = self._find(caller, id) or self._add(caller, id)
        if observed and observed != found.server_side_id:
            raise FailedPrecondition("[INVALID_HANDLE.SESSION_CHANGED] The server was started again: connect again.")
        found.used = time.monotonic()
        return found

    def get(self, caller: Caller, id: str) -> ClientSession:
        found = self._find(caller, id)
        if found is None:
            raise NotFound("[INVALID_HANDLE.SESSION_NOT_FOUND] The session does not exist: connect again.")
        found.used = time.monotonic()
        return found

    def make_room(self, caller: Caller) -> None:
        """Forget answers that a token's clients have not fetched, the oldest first, when they are too many."""
        with self._lock:
            own = [session for (owner, _), session in self._sessions.items() if owner == caller]
        found = [(one, session) for session in own for one in session.operations.find(lambda one: one.done)]
        found.sort(key=lambda pair: pair[0].asked)
        kept = sum(one.kept_bytes for one, _ in found)
        for index, (one, session) in enumerate(found):
            if kept <= MAX_KEPT_BYTES and len(found) - index <= MAX_KEPT:
                return
            kept -= one.kept_bytes
            session.operations.forget(one.id)

    def close(self, caller: Caller, id: str) -> None:
        with self._lock:
            found = self._sessions.pop((caller, id), None)
        if found is not None:
            found.operations.close()

    def close_all(self) -> None:
        with self._lock:
            found, self._sessions = list(self._sessions.values()), {}
        for one in found:
            one.operations.close()

    def _find(self, caller: Caller, id: str) -> ClientSession | None:
        with self._lock:
            return self._sessions.get((caller, id))

    def _add(self, caller: Caller, id: str) -> ClientSession:
        with self._lock:
            if sum(owner == caller for owner, _ in self._sessions) >= MAX_SESSIONS:
                raise Unavailable(
                    f"A token can have at most {MAX_SESSIONS} sessions at a time: stop one with spark.stop()."
                )
        made = ClientSession(id, self._make(caller))
        with self._lock:
            self._sessions[caller, id] = made
        return made

    def _sweep(self) -> None:
        """End sessions unused for long, and delete unused operations."""
        now = time.monotonic()
        with self._lock:
            all_of_them = list(self._sessions.items())
            idle = [key for key, one in all_of_them if now - one.used > IDLE_SECONDS and not _is_busy(one)]
            ended = [self._sessions.pop(key) for key in idle]
        for one in ended:
            one.operations.close()
        for _, one in all_of_them:
            one.operations.forget_old(now)


def _is_busy(session: ClientSession) -> bool:
    return bool(session.operations.find(lambda one: not one.done))


def _check_id(id: str) -> None:
    try:
        UUID(id)
    except ValueError:
        raise InvalidInput("[INVALID_HANDLE.FORMAT] The id of a session is a UUID.") from None
