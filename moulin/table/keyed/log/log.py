"""The log of a region: every write that is not yet in segments, in order, by exactly one writer.

Two media: `LocalLog` (files on this machine's disk) and `StoreLog` (numbered objects beside the table's segments).
Entries have positions 1, 2, 3, ... over the whole life of a region; 0 means that nothing is covered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, Protocol

from moulin.errors import Closed, Corrupt, Fenced, InvalidInput, MoulinError, Unavailable

SyncMode = Literal["always", "interval", "never"]


class Log(Protocol):
    """What both media promise. Every method may be called from several threads at once.

    A log that failed to write or to sync is dead: this call and every later one raise Unavailable, since nobody knows
    what of it reached the disk. A log that another writer took over is dead as well, and raises Fenced. Open it again.
    """

    @property
    def last(self) -> int:
        """Position of the newest entry, 0 if there never was one."""
        ...

    def append(self, payload: bytes) -> int:
        """Adds an entry of at least one byte and gives its position, the one after `last`."""
        ...

    def append_many(self, payloads: Iterable[bytes]) -> int:
        """Adds entries at successive positions, in as few writes as can be, and gives the position of the last."""
        ...

    def commit(self, position: int) -> None:
        """Returns when every entry up to `position` is as durable as the log promises; callers at once share a sync."""
        ...

    def replay(self, after: int) -> Iterator[tuple[int, bytes]]:
        """Position and payload of every entry after this position, in order. To be read before the first append."""
        ...

    def trim(self, through: int) -> None:
        """Deletes entries up to this position: files or objects without newer entries."""
        ...

    def shed(self) -> None:
        """Starts a new file or object, so that `trim` can delete every earlier entry. Writers must be paused."""
        ...

    def close(self) -> None:
        """Makes everything durable and releases the log. Later appends raise Closed."""
        ...


CLOSED: Final = "The log was closed: open the table again."


class Death:
    """Why a log is dead. A new exception is raised each time, so that threads do not share a traceback."""

    def __init__(self, kind: type[MoulinError], message: str) -> None:
        self._kind, self._message = kind, message

    def error(self) -> MoulinError:
        return self._kind(self._message)


def failed(name: str, what: str, reason: object) -> Death:
    """A write or sync did not succeed."""
    return Death(
        Unavailable,
        f"The log {name} could not be {what} ({reason}), so it accepts no more writes. Fix the cause, then open the "
        f"table again: acknowledged writes are kept.",
    )


def taken_over(name: str, epoch: int, found: object) -> Death:
    """Another writer claimed the region."""
    return Death(
        Fenced,
        f"The log {name} was taken over: this writer has epoch {epoch}, but found {found}. Open the table again.",
    )


def closed() -> Death:
    return Death(Closed, CLOSED)


def missing(name: str, position: int, found: int) -> Corrupt:
    return Corrupt(
        f"The log {name} lacks the entries from position {position} to {found - 1}: restore its files from a copy."
    )


def check_committable(position: int, last: int) -> None:
    if position > last:
        raise InvalidInput(f"Position {position} cannot be committed: the newest entry of the log is {last}.")


__all__ = ["Log", "SyncMode"]
