"""The protocol between the server and its children: MessagePack objects over a socket pair.

Both ends check the types of messages: an invalid message ends the child.
"""

from __future__ import annotations

import socket
import struct
import threading
from typing import Final, Generic, TypeVar

import msgspec

LARGEST: Final = 1 << 30
"""Bytes of a message; a result has fewer, since the server says how many."""
_HEAD: Final = struct.Struct(">I")


class Opening(msgspec.Struct, frozen=True, tag="opening"):
    """The first message to a child: the lake, and what it may use. Secrets come here, and not in the environment."""

    engine: str
    address: str
    token: str
    storage_options: dict[str, str]
    base_options: dict[str, dict[str, str]]
    folder: str
    memory_bytes: int
    result_bytes: int


class Run(msgspec.Struct, frozen=True, tag="run"):
    """Run a statement, and return no more than so many rows."""

    id: str
    text: str
    rows: int
    version: int | None


class Explain(msgspec.Struct, frozen=True, tag="explain"):
    """Plan a statement."""

    id: str
    text: str
    version: int | None


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    id: str


Asked = Opening | Run | Explain | Cancel


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The child takes statements from now on."""


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """The part that is done, from 0 to 1."""

    id: str
    part: float


class Rows(msgspec.Struct, frozen=True, tag="rows"):
    """The rows of a statement as an Arrow stream. `more`: there are others; `cut`: they have too many bytes."""

    id: str
    arrow: bytes
    more: bool
    cut: bool


class PlanStep(msgspec.Struct, frozen=True):
    name: str
    details: list[tuple[str, str]]
    inputs: list[PlanStep]


class TableShare(msgspec.Struct, frozen=True):
    table: str
    read: int
    total: int


class Plan(msgspec.Struct, frozen=True, tag="plan"):
    id: str
    steps: list[PlanStep]
    shares: list[TableShare]


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """A statement ended with an error; without an id, the child cannot open the lake. `kind` is of moulin.errors."""

    id: str
    kind: str
    message: str
    line: int | None = None
    column: int | None = None


Said = Ready | Progress | Rows | Plan | Failed
Incoming = TypeVar("Incoming")


class Channel(Generic[Incoming]):
    """One end. Any thread sends, one receives."""

    def __init__(self, end: socket.socket, incoming: object) -> None:
        self._end = end
        self._decoder: msgspec.msgpack.Decoder[Incoming] = msgspec.msgpack.Decoder(incoming)
        self._sending = threading.Lock()

    def send(self, message: Asked | Said) -> None:
        """Raises OSError when the other end is gone."""
        body = msgspec.msgpack.encode(message)
        with self._sending:
            self._end.sendall(_HEAD.pack(len(body)))
            self._end.sendall(body)

    def receive(self) -> Incoming | None:
        """The next message; None when the other end is gone. Raises ValueError for what is no message."""
        head = self._read(_HEAD.size)
        if head is None:
            return None
        (size,) = _HEAD.unpack(head)
        if size > LARGEST:
            raise ValueError("a message is too large")
        body = self._read(size)
        return None if body is None else self._decoder.decode(body)

    def _read(self, count: int) -> bytes | None:
        parts, left = [], count
        while left:
            try:
                part = self._end.recv(min(left, 1 << 20))
            except OSError:
                return None
            if not part:
                return None
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        self._end.close()


def server_channel(end: socket.socket) -> Channel[Said]:
    return Channel(end, Said)


def child_channel(end: socket.socket) -> Channel[Asked]:
    return Channel(end, Asked)
