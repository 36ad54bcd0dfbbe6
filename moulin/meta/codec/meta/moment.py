"""Moments as text, and ranges of time."""

from __future__ import annotations

from datetime import UTC, datetime

from moulin._proto.moulin.meta.v1 import common_pb2 as pb
from moulin.errors import InvalidInput


def to_message_moment(unix_ns: int) -> str:
    """A moment as text, in UTC, to the microsecond."""
    moment = datetime.fromtimestamp(unix_ns // 1_000_000_000, UTC).replace(microsecond=unix_ns // 1000 % 1_000_000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def from_message_moment(text: str) -> int:
    """Unix nanoseconds, to the microsecond."""
    return int(datetime.fromisoformat(text).timestamp() * 1_000_000) * 1000


def from_message_range(given: pb.TimeRange, what: str) -> tuple[int, int]:
    """Start and end in Unix nanoseconds, both included."""
    if given.start_time > given.end_time:
        raise InvalidInput(f"The {what} starts at {given.start_time}, after its end {given.end_time}.")
    return given.start_time, given.end_time
