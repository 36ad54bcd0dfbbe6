"""One connection of a client to a meta server: address, token, TLS, deadlines, and errors as they were raised there."""

# Decisions: docs/decisions/0103

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import grpc

from moulin.errors import Closed, InvalidInput, MoulinError, Unavailable
from moulin.meta.codec.errors import DETAIL, from_rpc_error
from moulin.meta.features import OWN

PORT: Final = 9560
CLUSTER: Final = "x-moulin-cluster"  # the metadata of a call that says which cluster it is meant for
_SECONDS: Final = 120.0  # for one call
_ATTEMPTS: Final = 4
_MESSAGE_BYTES: Final = 256 << 20


class Connection:
    """Safe to use from several threads. `uri` is grpc://host[:port], or grpcs:// for TLS.

    `token` and `certificate` (a PEM file with the authorities to trust) come from MOULIN_TOKEN and
    MOULIN_CA_CERTIFICATE when they are not given.
    """

    def __init__(
        self, uri: str, *, token: str | None = None, certificate: str | Path | None = None, seconds: float = _SECONDS
    ) -> None:
        self.uri = uri
        self._seconds = seconds
        token = os.environ.get("MOULIN_TOKEN") if token is None else token
        if token and not (token.isascii() and token.isprintable()):
            raise InvalidInput("The token contains invalid characters: copy it again.")
        self._metadata: tuple[tuple[str, str], ...] = (OWN, ("authorization", f"Bearer {token}")) if token else (OWN,)
        self._channel = _channel(uri, certificate or os.environ.get("MOULIN_CA_CERTIFICATE"))
        self._closed = False

    def tag(self, cluster: str) -> None:
        """Say with every call from now on which cluster it is meant for; another one refuses it."""
        self._metadata = (*(entry for entry in self._metadata if entry[0] != CLUSTER), (CLUSTER, cluster))

    def stub(self, kind: Callable[[grpc.Channel], Any]) -> Any:
        """A generated stub; its calls go through `call` and `stream`."""
        return kind(self._channel)

    def call(self, method: Any, request: Any, *, again: bool = False, seconds: float | None = None) -> Any:
        """One answer, within `seconds` if they are more than those of the connection.

        With `again`, a call that did not get through is repeated: doing it twice must do no harm.
        """
        timeout = max(self._seconds, seconds or 0.0)
        return self._attempt(lambda: method(request, timeout=timeout, metadata=self._metadata), again)

    def stream(self, method: Any, request: Any) -> list[Any]:
        """All answers of a call that only looks."""
        answers: list[Any] = self._attempt(
            lambda: list(method(request, timeout=self._seconds, metadata=self._metadata)), True
        )
        return answers

    def _attempt(self, run: Callable[[], Any], again: bool) -> Any:
        for wait in _waits(_ATTEMPTS if again else 1):
            try:
                return run()
            except grpc.RpcError as error:
                translated = from_rpc_error(error)
                if wait is None or not lost(error):
                    raise translated from None
                time.sleep(wait)
            except ValueError as error:
                if self._closed:
                    raise Closed("The lake was closed; connect again.") from None
                raise InvalidInput(f"The request cannot be sent: {error}.") from None
        raise AssertionError("unreachable")

    def close(self) -> None:
        self._closed = True
        self._channel.close()


def lost(error: grpc.RpcError) -> bool:
    """Whether a call failed on its way, rather than being refused by the server."""
    return error.code() is grpc.StatusCode.UNAVAILABLE and DETAIL not in dict(error.trailing_metadata() or ())


def _waits(attempts: int) -> Iterator[float | None]:
    """How long to wait after each attempt; None after the last."""
    yield from (0.05 * 4**attempt for attempt in range(attempts - 1))
    yield None


def _channel(uri: str, certificate: str | Path | None) -> grpc.Channel:
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port or PORT
    except ValueError:
        host = None
    if host is None or parts.scheme not in ("grpc", "grpcs") or parts.path not in ("", "/") or parts.query:
        raise InvalidInput("The address of a server must be grpc://host:port, or grpcs://host:port with TLS.")
    if parts.username or parts.password:
        raise InvalidInput(
            "The address of a server must not contain user or password: pass token= or set MOULIN_TOKEN."
        )
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    options = [
        ("grpc.max_receive_message_length", _MESSAGE_BYTES),
        ("grpc.max_send_message_length", _MESSAGE_BYTES),
        ("grpc.enable_retries", 0),
    ]
    if parts.scheme == "grpc":
        if certificate is not None and os.environ.get("MOULIN_CA_CERTIFICATE") != certificate:
            raise InvalidInput("A certificate needs a grpcs:// address.")
        return grpc.insecure_channel(target, options)
    try:
        roots = None if certificate is None else Path(certificate).read_bytes()
    except OSError as error:
        raise InvalidInput(f"The certificate {certificate} cannot be read: {error.strerror}.") from None
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(roots), options)


__all__ = ["CLUSTER", "PORT", "Connection", "MoulinError", "Unavailable", "lost"]
