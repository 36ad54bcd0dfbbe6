"""Web sockets that the server alone sends over: text, until either side closes. RFC 6455 without extensions.

A client may answer pings, ping, and close. A message of its own ends the connection with 1003, so nothing of a client
is ever held but the head of a frame. A connection that is silent for two pings, or does not read, is cut off.
"""

# Decisions: docs/decisions/0710

from __future__ import annotations

import asyncio
import base64
import hashlib
import struct
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _CLOSE, _PING, _PONG = 0x1, 0x8, 0x9, 0xA
_FINAL, _MASKED, _RESERVED = 0x80, 0x80, 0x70
_LONGEST_CONTROL: Final = 125
GOING_AWAY: Final = 1001
_PROTOCOL_ERROR, _UNSUPPORTED, _NO_CODE, _LOST = 1002, 1003, 1005, 1006
PING_SECONDS: Final = 30.0
_READ_SECONDS: Final = 30.0


class SendingSocket(asyncio.Protocol):
    """One connection, from the request to upgrade it, which uvicorn's HTTP protocol hands over."""

    def __init__(self, config: Any, server_state: Any, app_state: dict[str, Any]) -> None:
        self._app: ASGIApp = config.loaded_app
        self._root_path: str = config.root_path
        self._state, self._app_state = server_state, app_state
        self._loop = asyncio.get_running_loop()
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: Any = None
        self._key = b""
        self._buffer = bytearray()
        self._has_begun = self._is_open = self._is_over = False
        self._denied: tuple[int, list[tuple[bytes, bytes]]] = (403, [])
        self._denial = b""
        self._pings_unanswered = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._state.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        self._writable.set()
        self._end(_LOST)
        if self._timer is not None:
            self._timer.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def shutdown(self) -> None:
        """The server stops."""
        self._close(GOING_AWAY)

    def data_received(self, data: bytes) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._begin(data)
            return
        self._pings_unanswered = 0
        self._buffer += data
        while not self._is_over and self._take_frame():
            pass

    def _begin(self, head: bytes) -> None:
        """The head of the request, which was checked as HTTP and is written out again."""
        first, *lines = head.rstrip(b"\r\n").split(b"\r\n")
        method, target, _ = first.split(b" ", 2)
        headers = [(name.strip().lower(), value.strip()) for name, _, value in (one.partition(b":") for one in lines)]
        given = dict(headers)
        self._key = given.get(b"sec-websocket-key", b"")
        if method != b"GET" or not self._key or given.get(b"sec-websocket-version") != b"13":
            self._answer(400, [(b"sec-websocket-version", b"13")], b"This is no request for a web socket, version 13.")
            return
        task = self._loop.create_task(self._run(self._scope(target, headers)))
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    def _scope(self, target: bytes, headers: list[tuple[bytes, bytes]]) -> Scope:
        path, _, query = target.partition(b"?")
        peer = self._transport.get_extra_info("peername")
        server = self._transport.get_extra_info("sockname")
        return {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "scheme": "wss" if self._transport.get_extra_info("sslcontext") else "ws",
            "server": tuple(server[:2]) if server else None,
            "client": tuple(peer[:2]) if peer else None,
            "root_path": self._root_path,
            "path": self._root_path + unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "headers": headers,
            "subprotocols": [],
            "state": dict(self._app_state),
            "extensions": {"websocket.http.response": {}},
        }

    async def _run(self, scope: Scope) -> None:
        self._messages.put_nowait({"type": "websocket.connect"})
        try:
            await self._app(scope, self._messages.get, self._send)
        except OSError:
            pass  # the client is gone
        finally:
            self._close(GOING_AWAY)

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if self._is_over:
            raise OSError("The web socket is closed.")
        if kind == "websocket.accept":
            self._accept(message.get("headers", ()))
        elif kind == "websocket.send":
            self._write(_TEXT, (message.get("text") or "").encode())
        elif kind == "websocket.close":
            self._close(message.get("code", 1000))
        elif kind == "websocket.http.response.start":
            self._denied = message["status"], list(message.get("headers", ()))
        elif kind == "websocket.http.response.body":
            self._denial += message.get("body", b"")
            if not message.get("more_body"):
                self._answer(*self._denied, self._denial)
        await self._drain()

    async def _drain(self) -> None:
        try:
            await asyncio.wait_for(self._writable.wait(), _READ_SECONDS)
        except TimeoutError:
            self._transport.abort()
            raise OSError("The client does not read.") from None

    def _accept(self, headers: Any) -> None:
        accepted = base64.b64encode(hashlib.sha1(self._key + _MAGIC, usedforsecurity=False).digest())
        own = [(b"upgrade", b"websocket"), (b"connection", b"Upgrade"), (b"sec-websocket-accept", accepted)]
        self._transport.write(_head(101, [*own, *headers]))
        self._is_open = True
        self._timer = self._loop.call_later(PING_SECONDS, self._ping)

    def _ping(self) -> None:
        if self._is_over:
            return
        if self._pings_unanswered > 1:
            self._transport.abort()
            return
        self._pings_unanswered += 1
        self._write(_PING, b"")
        self._timer = self._loop.call_later(PING_SECONDS, self._ping)

    def _take_frame(self) -> bool:
        """Take one frame of the client, if it is there; all that it may send is small."""
        held = self._buffer
        if len(held) < 2:
            return False
        kind, length = held[0] & 0x0F, held[1] & 0x7F
        if held[0] & _RESERVED or not held[1] & _MASKED:
            self._close(_PROTOCOL_ERROR)
        elif kind not in (_CLOSE, _PING, _PONG):
            self._close(_UNSUPPORTED)
        elif not held[0] & _FINAL or length > _LONGEST_CONTROL:
            self._close(_PROTOCOL_ERROR)
        elif len(held) >= 6 + length:
            payload = bytes(byte ^ held[2 + at % 4] for at, byte in enumerate(held[6 : 6 + length]))
            del held[: 6 + length]
            if kind == _PING:
                self._write(_PONG, payload)
            elif kind == _CLOSE:
                self._close(struct.unpack(">H", payload[:2])[0] if len(payload) > 1 else _NO_CODE)
            return True
        return False

    def _write(self, kind: int, payload: bytes) -> None:
        size = len(payload)
        if size <= _LONGEST_CONTROL:
            length = struct.pack(">B", size)
        elif size < 1 << 16:
            length = struct.pack(">BH", 126, size)
        else:
            length = struct.pack(">BQ", 127, size)
        self._transport.write(bytes([_FINAL | kind]) + length + payload)

    def _close(self, code: int) -> None:
        """End the connection: with a close frame once it is open, with 403 before."""
        if self._is_over:
            return
        if not self._is_open:
            self._answer(403, [], b"")
            return
        self._write(_CLOSE, b"" if code == _NO_CODE else struct.pack(">H", code))
        self._end(code)
        self._transport.close()

    def _answer(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """An answer in HTTP instead of the web socket that was asked for."""
        kept = [(name, value) for name, value in headers if name.lower() not in (b"content-length", b"connection")]
        own = [(b"content-length", str(len(body)).encode()), (b"connection", b"close")]
        self._transport.write(_head(status, [*kept, *own]) + body)
        self._end(_LOST)
        self._transport.close()

    def _end(self, code: int) -> None:
        if not self._is_over:
            self._is_over = True
            self._messages.put_nowait({"type": "websocket.disconnect", "code": code})


def _head(status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
    lines = [b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode())]
    lines += [b"%s: %s" % (name, value) for name, value in headers]
    return b"\r\n".join([*lines, b"", b""])


__all__ = ["GOING_AWAY", "PING_SECONDS", "SendingSocket"]
