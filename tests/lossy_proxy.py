"""A proxy in front of an object store that does the work and loses the answer.

The first time that a request which changes something comes by, it is passed on, and its answer is thrown away: the
connection is cut, or a gateway's 502 comes instead. The same request again gets its answer.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

from moulin.storage import remote

_CHANGES = ("PUT", "POST", "DELETE")


class Lossy(ThreadingHTTPServer):
    """`lost` are the requests of which an answer was lost. How it is lost is "cut" or "gateway"."""

    daemon_threads = True

    def __init__(self, upstream: str, how: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream, self.how = urlsplit(upstream).netloc, how
        self.lost: list[str] = []
        self._seen: set[str] = set()
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def loses(self, method: str, target: str) -> bool:
        """Whether the answer to this request is to be lost; of a repeated one it is not."""
        request = f"{method} {target}"
        with self._lock:
            if method not in _CHANGES or request in self._seen:
                return False
            self._seen.add(request)
            self.lost.append(request)
            return True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Lossy

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=30)
        try:
            upstream.request(self.command, self.path, body, dict(self.headers))
            answer = upstream.getresponse()
            data, headers, status = answer.read(), answer.getheaders(), answer.status
        finally:
            upstream.close()
        if status < 400 and self.server.loses(self.command, self.path):
            if self.server.how == "cut":
                self.close_connection = True
                return
            status, headers, data = 502, [], b""
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = {name.lower(): value for name, value in headers}.get("content-length", "0")
        self.send_header("Content-Length", length if self.command == "HEAD" else str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815

    def log_message(self, format: str, *arguments: Any) -> None:
        """Quiet."""


@contextmanager
def lossy_proxy(upstream: str, how: str) -> Iterator[Lossy]:
    """Runs one. Stores that are opened meanwhile hardly wait between attempts."""
    soon: Any = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=10), "base": 2}
    with mock.patch.dict(remote._RETRY, backoff=soon), Lossy(upstream, how) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
