"""`/metrics` and `/healthz` of a process that has no other HTTP server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from moulin.errors import InvalidInput, Unavailable

_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def metrics_at(bind: str, text: Callable[[], str]) -> Iterator[int]:
    """Serves on `bind` (host:port; port 0 for any free one) while the block runs; yields the port."""
    host, colon, port = bind.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise InvalidInput(f"{bind!r} is not a listen address: write host:port, such as 127.0.0.1:4319.")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            known = path in ("/metrics", "/healthz")
            answer = text() if path == "/metrics" else "ok\n" if known else "Not found: use /metrics or /healthz.\n"
            body = answer.encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", _TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not logged."""

    try:
        server = ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
    except OSError as error:
        raise Unavailable(f"Cannot listen on {bind}: {error.strerror}.") from None
    thread = threading.Thread(target=server.serve_forever, name="moulin-metrics", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
