"""The public keys of an external issuer: found by OpenID Connect discovery, fetched with limits, cached for a while."""

# Decisions: docs/decisions/0521

from __future__ import annotations

import json
import logging
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final
from urllib import request
from urllib.parse import urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from moulin.errors import InvalidInput, Unauthenticated, Unavailable
from moulin.network.hosts import is_loopback_host
from moulin.storage.http_client import open_address

log = logging.getLogger("moulin.auth")
FRESH_SECONDS: Final = 600.0
"""After this, keys are fetched again when a token comes."""
STALE_SECONDS: Final = 3600.0
"""Keys older than this are not used, though the issuer does not answer."""
PAUSE_SECONDS: Final = 15.0
"""Between two fetches, whatever callers send."""
_LARGEST: Final = 256 << 10
_MOST_KEYS: Final = 64
_TIMEOUT: Final = 5.0
_DEADLINE: Final = 10.0
_PATIENCE: Final = 2.0
_SMALLEST_RSA: Final = 2048

Key = RSAKey | ECKey
Fetch = Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A key, and the one algorithm that it is good for."""

    kid: str | None
    algorithm: str
    key: Key


class IssuerKeys:
    """The keys of one issuer. Safe to use from several threads; one of them fetches."""

    def __init__(self, issuer: str, fetch: Fetch | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer, self._fetch, self._clock = issuer, fetch or fetch_json, clock
        self._lock = threading.Lock()
        self._keys: tuple[IssuerKey, ...] = ()
        self._fetched: float | None = None
        self._tried: float | None = None
        self._failed = False

    def find(self, kid: str | None, algorithm: str) -> Key:
        """The key that signed a token.

        Raises Unauthenticated when the issuer has none of that id and algorithm, and Unavailable if that is unknown.
        """
        found, settled = self._chosen(kid, algorithm), True
        if found is None or not self._younger(FRESH_SECONDS):
            settled = self._renew(kid, algorithm)
            found = self._chosen(kid, algorithm)
        if found is not None and self._younger(STALE_SECONDS):
            return found
        if self._failed or not settled or not self._younger(STALE_SECONDS):
            raise Unavailable(f"The keys of {self._issuer} cannot be fetched, so its tokens cannot be checked: retry.")
        raise Unauthenticated("The token is signed with an unknown key of its issuer: request a new one.")

    def is_known(self, kid: str | None, algorithm: str) -> bool:
        """Whether `find` answers without waiting for the network."""
        return self._younger(FRESH_SECONDS) and self._chosen(kid, algorithm) is not None

    def _chosen(self, kid: str | None, algorithm: str) -> Key | None:
        fit = [one.key for one in self._keys if one.algorithm == algorithm and (kid is None or one.kid == kid)]
        return fit[0] if fit and (kid is not None or len(fit) == 1) else None

    def _younger(self, seconds: float) -> bool:
        return self._fetched is not None and self._clock() - self._fetched < seconds

    def _renew(self, kid: str | None, algorithm: str) -> bool:
        """Fetch the keys, unless another thread just did or the last fetch is a moment ago.

        False if another thread takes too long: then the keys are unknown.
        """
        if not self._lock.acquire(timeout=_PATIENCE):
            return False
        try:
            if self.is_known(kid, algorithm):
                return True
            if self._tried is not None and self._clock() - self._tried < PAUSE_SECONDS:
                return True
            self._tried = self._clock()
            try:
                self._keys = self._read()
            except (OSError, HTTPException, ValueError, RecursionError) as error:
                self._failed = True
                log.error("keys of the issuer", extra={"issuer": self._issuer, "error": str(error)[:200]})
                return True
            self._fetched, self._failed = self._tried, False
            return True
        finally:
            self._lock.release()

    def _read(self) -> tuple[IssuerKey, ...]:
        document = self._fetch(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != self._issuer:
            raise ValueError("the discovery document belongs to another issuer")
        where = document.get("jwks_uri")
        if not isinstance(where, str) or (urlsplit(where).scheme == "http" and urlsplit(self._issuer).scheme != "http"):
            raise ValueError("the discovery document has no https address for keys")
        listed = self._fetch(require_safe(where)).get("keys")
        if not isinstance(listed, list):
            raise ValueError("the key document has no list of keys")
        return tuple(found for one in listed[:_MOST_KEYS] if (found := _to_key(one)) is not None)


def require_safe(address: str) -> str:
    """`address` if it is https, or http of this machine; InvalidInput otherwise."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        host, parts = "", urlsplit("")
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback_host(host))
    if not host or "@" in parts.netloc or not is_safe:
        raise InvalidInput(f"{address[:200]!r} is not an https:// address, which an issuer and its keys need.")
    return address


def fetch_json(address: str) -> Mapping[str, Any]:
    """A JSON object of bounded size, in bounded time; redirects are not followed."""
    end = time.monotonic() + _DEADLINE
    asked = request.Request(address, headers={"Accept": "application/json"})
    with open_address(asked, _TIMEOUT) as answer:
        data = bytearray()
        while chunk := answer.read1(65536):
            data += chunk
            if len(data) > _LARGEST or time.monotonic() > end:
                raise ValueError(f"{address} responds with too much data, or too slowly")
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError(f"{address} does not respond with a JSON object")
    return found


def _to_key(document: Any) -> IssuerKey | None:
    """A key for signatures, or None: the public RSA and P-256 keys are taken, and symmetric ones never."""
    if not isinstance(document, dict) or document.get("use", "sig") != "sig":
        return None
    kid, kind = document.get("kid"), document.get("kty")
    if not isinstance(kid, str | None):
        return None
    made: Key
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of short keys, which are left out below
            if kind == "RSA":
                algorithm, made = "RS256", RSAKey.import_key({"kty": "RSA", "n": document["n"], "e": document["e"]})
                if made.public_key.key_size < _SMALLEST_RSA:
                    return None
            elif kind == "EC" and document.get("crv") == "P-256":
                point = {name: document[name] for name in ("crv", "x", "y")}
                algorithm, made = "ES256", ECKey.import_key({"kty": "EC", **point})
            else:
                return None
    except (JoseError, KeyError, ValueError, TypeError):
        return None
    return IssuerKey(kid, algorithm, made) if document.get("alg", algorithm) == algorithm else None


__all__ = ["FRESH_SECONDS", "PAUSE_SECONDS", "STALE_SECONDS", "IssuerKeys", "fetch_json", "require_safe"]
