"""Tickets: short-lived tokens that OAuth2 clients get for an access token's name and secret.

A ticket is signed with a key that the lake's servers share, in a file next to that of the access tokens, and contains
the id of its access token. Each use checks that token again, so revoking it invalidates its tickets at once, and a
changed role applies to them too. Servers do not store tickets.
"""

# Decisions: docs/decisions/0520

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moulin.errors import InvalidInput, Unauthenticated, Unavailable
from moulin.meta.auth import Access, AccessFile, Caller
from moulin.meta.roles import Role

log = logging.getLogger("moulin.auth")
PREFIX: Final = "mlk_"
RENEWED_SECONDS: Final = 86_400
"""How long a ticket may be exchanged for another without the secret."""
_LARGEST: Final = 1024
_KEY_BYTES: Final = 32
_LOST: Final = "Unknown token: request a new one."


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a ticket says. Times are Unix seconds; `since` is when the secret was last shown."""

    name: str
    mark: str
    role: Role
    since: int
    expires: int


class Tickets:
    """Makes and reads the tickets of the tokens in one file. Safe to use from several threads."""

    def __init__(self, access: AccessFile, seconds: int, clock: Callable[[], float] = time.time) -> None:
        self._access, self._seconds, self._clock = access, seconds, clock
        self._key = _KeyFile(access.path.with_name(access.path.name + ".key"))

    def issue(self, name: str | None, secret: str, most: Role = Role.ADMIN) -> tuple[str, int]:
        """A ticket for a token's name and secret, and the seconds that it lives. Without a name the secret is enough.

        Its role is the token's, or `most` if that is less.
        """
        known = self._access.authenticate(secret)
        if name is not None and name != known.name:
            raise Unauthenticated(_LOST)
        return self._made(known.name, min(most, known.role), int(self._clock()))

    def exchange(self, token: str, most: Role = Role.ADMIN) -> tuple[str, int]:
        """A new ticket for one that has not expired, or for an access token."""
        if not token.startswith(PREFIX):
            return self.issue(None, token, most)
        ticket, access = self._read(token)
        if ticket.since + RENEWED_SECONDS <= self._clock():
            raise Unauthenticated(
                "The token can be renewed only for a day: send the name and secret of the access token."
            )
        return self._made(access.name, min(most, ticket.role, access.role), ticket.since)

    def authenticate(self, token: str) -> Caller:
        """Who has this ticket, with no more than the role that its access token has now."""
        ticket, access = self._read(token)
        return Caller(access.name, min(ticket.role, access.role))

    def _made(self, name: str, role: Role, since: int) -> tuple[str, int]:
        access = self._find(name)
        now = int(self._clock())
        end = now + self._seconds
        if access.expires is not None:
            end = min(end, int(access.expires.timestamp()))
        if end <= now:
            raise Unauthenticated(f"The token {name!r} has expired: request a new one.")
        payload = json.dumps([name, _mark(access), int(role), since, end], separators=(",", ":")).encode()
        return f"{PREFIX}{_text(payload)}.{_text(_sign(self._key.get(make=True), payload))}", end - now

    def _read(self, token: str) -> tuple[Ticket, Access]:
        try:
            if len(token) > _LARGEST or not token.startswith(PREFIX):
                raise ValueError
            first, second = token.removeprefix(PREFIX).split(".")
            payload, given = _bytes(first), _bytes(second)
            key = self._key.get()
            if not hmac.compare_digest(_sign(key, payload), given):
                raise ValueError
            name, mark, role, since, expires = json.loads(payload)  # it is ours: the signature was right
            ticket = Ticket(name, mark, Role(role), since, expires)
        except (ValueError, TypeError, binascii.Error):
            raise Unauthenticated(_LOST) from None
        access = self._find(ticket.name)
        if not hmac.compare_digest(_mark(access), ticket.mark):
            raise Unauthenticated(_LOST)  # revoked, and its name given to another
        now = self._clock()
        if ticket.expires <= now or (access.expires is not None and access.expires.timestamp() <= now):
            raise Unauthenticated(f"The token {ticket.name!r} has expired: request a new one.")
        return ticket, access

    def _find(self, name: str) -> Access:
        try:
            found = next((one for one in self._access.tokens() if one.name == name), None)
        except InvalidInput as error:  # the operator's mistake, not the caller's
            log.error("access file", extra={"error": error.message})
            raise Unavailable("The server cannot read its token file: the operator must repair it.") from None
        if found is None:
            raise Unauthenticated(_LOST)
        return found


class _KeyFile:
    """The key that tickets are signed with: a file of 64 hexadecimal digits, made when the first ticket is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._key = secrets.token_bytes(_KEY_BYTES)  # of this process alone, where no file can be made

    def get(self, *, make: bool = False) -> bytes:
        with self._lock:
            seen = self._stat()
            if seen is None and make:
                self._make()
                seen = self._stat()
            if seen != self._seen and seen is not None:
                self._key, self._seen = self._load(), seen
            return self._key

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _load(self) -> bytes:
        try:
            key = bytes.fromhex(self._path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            key = b""
        if len(key) != _KEY_BYTES:
            log.error("key file", extra={"error": f"{self._path.name} does not hold 64 hexadecimal digits."})
            raise Unavailable("The server cannot read its token key: the operator must repair or delete it.")
        return key

    def _make(self) -> None:
        """Appears whole, and once: of two servers that make it, one does."""
        try:
            handle, temporary = tempfile.mkstemp(dir=self._path.parent, prefix=".access-")  # its owner's alone
        except OSError:
            log.warning("no key file", extra={"error": f"{self._path.name} cannot be made: tokens are good here only."})
            return
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(secrets.token_hex(_KEY_BYTES) + "\n")
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(temporary, self._path)
        finally:
            os.unlink(temporary)


def _mark(access: Access) -> str:
    """Which access token of its name this is; says nothing of its hash."""
    return hashlib.sha256(b"moulin ticket of " + access.sha256.encode()).hexdigest()[:32]


def _sign(key: bytes, payload: bytes) -> bytes:
    return hmac.digest(key, b"moulin ticket\0" + payload, "sha256")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)


__all__ = ["PREFIX", "RENEWED_SECONDS", "Tickets"]
