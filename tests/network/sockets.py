"""A web socket of a client, as plainly as it can be written, so that tests may also write what a client must not."""

from __future__ import annotations

import base64
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any, Final

import pytest

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
KEY: Final = base64.b64encode(b"sixteen bytes ok").decode()


class Client:
    """Connects and sends the request; `status` and `body` are of the answer, 101 when the socket is open."""

    def __init__(self, port: int, path: str, *, seconds: float = 20, **headers: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self._held = b""
        given = {
            "Host": f"127.0.0.1:{port}",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": KEY,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        while b"\r\n\r\n" not in self._held:
            self._more()
        head, self._held = self._held.split(b"\r\n\r\n", 1)
        self.head = head.decode()
        self.status = int(self.head.split(" ")[1])

    @property
    def body(self) -> str:
        """What is left until the connection ends."""
        while part := self._socket.recv(1 << 16):
            self._held += part
        return self._held.decode()

    def _more(self) -> None:
        part = self._socket.recv(1 << 16)
        if not part:
            raise EOFError("The connection has ended.")
        self._held += part

    def _take(self, count: int) -> bytes:
        while len(self._held) < count:
            self._more()
        taken, self._held = self._held[:count], self._held[count:]
        return taken

    def frame(self) -> tuple[int, bytes]:
        """The next frame of the server."""
        first, second = self._take(2)
        assert first & 0xF0 == 0x80
        assert not second & 0x80
        size = second
        if size == 126:
            (size,) = struct.unpack(">H", self._take(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self._take(8))
        return first & 15, self._take(size)

    def send(self, kind: int, payload: bytes = b"", *, first: int | None = None, masked: bool = True) -> None:
        mask = os.urandom(4) if masked else b""
        shown = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)) if masked else payload
        head = bytes([0x80 | kind if first is None else first, (0x80 if masked else 0) | min(len(payload), 126)])
        if len(payload) > 125:
            head += struct.pack(">H", len(payload))
        self._socket.sendall(head + mask + shown)

    def close(self) -> None:
        self._socket.close()


Dial = Callable[..., Client]


@pytest.fixture
def dial() -> Iterator[Dial]:
    """Makes clients, which are closed at the end of a test."""
    with ExitStack() as stack:

        def connect(*places: Any, **options: Any) -> Client:
            return stack.enter_context(closing(Client(*places, **options)))

        yield connect
