"""An issuer of tokens for tests: a web server with discovery and keys, and whatever goes wrong with it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

Key = RSAKey | ECKey


_MADE = [RSAKey.generate_key(2048).private_key for _ in range(4)]  # making one takes a second now and then
_NEXT = count()


def rsa(parameters: Mapping[str, Any]) -> RSAKey:
    """A key that is another one than the three before."""
    return RSAKey.import_key(_MADE[next(_NEXT) % len(_MADE)], dict(parameters))


class IdentityProvider:
    """Publishes `keys`; answers with `answers` where a path is in it, and counts what was asked."""

    def __init__(self) -> None:
        self.keys: list[Key] = [rsa({"kid": "first", "use": "sig"})]
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[str] = []
        self.issuer = ""

    def document(self, path: str) -> tuple[int, bytes]:
        self.asked.append(path)
        if path in self.answers:
            return self.answers[path]
        if path == "/.well-known/openid-configuration":
            return 200, json.dumps({"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}).encode()
        if path == "/keys":
            return 200, json.dumps({"keys": [key.as_dict(private=False) for key in self.keys]}).encode()
        return 404, b"{}"

    def claims(self, **changed: Any) -> dict[str, Any]:
        """The claims of a good token with some changed, or left out as None."""
        now = int(time.time())
        made = {"iss": self.issuer, "aud": "moulin", "sub": "ann", "iat": now, "exp": now + 300, "roles": ["readers"]}
        return {name: value for name, value in {**made, **changed}.items() if value is not None}

    def token(self, key: Key | None = None, header: dict[str, Any] | None = None, **changed: Any) -> str:
        key = key or self.keys[0]
        algorithm = "RS256" if isinstance(key, RSAKey) else "ES256"
        made = {"alg": algorithm, "typ": "JWT", "kid": key.kid, **(header or {})}
        payload = json.dumps(self.claims(**changed)).encode()
        registry = jws.JWSRegistry(algorithms=[made["alg"]], strict_check_header=False)
        return jws.serialize_compact({k: v for k, v in made.items() if v is not None}, payload, key, registry=registry)


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    provider = IdentityProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = provider.document(self.path)
            self.send_response(status)
            if status == 302:
                self.send_header("Location", body.decode())
                body = b""
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
