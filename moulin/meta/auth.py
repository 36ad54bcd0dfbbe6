"""Access tokens: bearer tokens with roles.

Tokens are random, shown once at creation, and stored as SHA-256 in a TOML file that all servers of the lake share:

    [tokens.ci]
    role = "write"
    sha256 = "..."
    expires = "2027-01-01T00:00:00Z"    # may be left out

A server notices changes of the file at once, so a removed token is rejected immediately.
"""

# Decisions: docs/decisions/0102

from __future__ import annotations

import fcntl
import hashlib
import hmac
import logging
import os
import re
import secrets
import tempfile
import threading
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from moulin.errors import AlreadyExists, InvalidInput, NotFound, PermissionDenied, Unauthenticated, Unavailable
from moulin.network.callers import ANYONE as ANYONE
from moulin.network.callers import Caller as Caller
from moulin.network.callers import Role
from moulin.network.callers import caller as caller

log = logging.getLogger("moulin.auth")
_PREFIX: Final = "mlt_"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HASH = re.compile(r"[0-9a-f]{64}")
_OPEN: Final = ("/grpc.health.v1.Health/",)  # for probes, which have no token


@dataclass(frozen=True, slots=True)
class Access:
    """One token, as it is kept."""

    name: str
    role: Role
    sha256: str
    expires: datetime | None = None


class AccessFile:
    """The tokens of a lake's servers. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._tokens: tuple[Access, ...] = ()

    def tokens(self) -> tuple[Access, ...]:
        """What the file says now; read again when it has changed."""
        try:
            found = os.stat(self.path)
        except OSError:
            return ()
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        with self._lock:
            if seen != self._seen:
                self._tokens, self._seen = _read(self.path), seen
            return self._tokens

    def authenticate(self, token: str) -> Caller:
        """Who has this token. Every kept hash is compared, in constant time."""
        digest, now = _hash(token), datetime.now(UTC)
        found: Access | None = None
        try:
            tokens = self.tokens()
        except InvalidInput as error:  # the operator's mistake, not the caller's
            log.error("access file", extra={"error": error.message})
            raise Unavailable("The server cannot read its token file: the operator must repair it.") from None
        for access in tokens:
            if hmac.compare_digest(access.sha256, digest):
                found = access
        if found is None:
            raise Unauthenticated("Unknown token: request a new one.")
        if found.expires is not None and found.expires <= now:
            raise Unauthenticated(f"The token {found.name!r} has expired: request a new one.")
        return Caller(found.name, found.role)

    def create(self, name: str, role: Role, days: float | None = None) -> str:
        """Make a token; its secret is returned once and kept nowhere."""
        if not _NAME.fullmatch(name):
            raise InvalidInput("A token's name must have 1 to 64 letters, digits, '_' or '-'.")
        secret, expires = _secret(), _end(days)
        with self._alone():
            tokens = self.tokens()
            if any(access.name == name for access in tokens):
                raise AlreadyExists(f"There is a token {name!r} already: revoke it first, or choose another name.")
            self._write((*tokens, Access(name, role, _hash(secret), expires)))
        return secret

    def rotate(self, name: str, days: float | None = None) -> str:
        """Give a token another secret, and with `days` another end; the former secret is refused from now on."""
        secret, expires = _secret(), _end(days)
        with self._alone():
            tokens = self.tokens()
            if not any(access.name == name for access in tokens):
                raise NotFound(f"There is no token {name!r}.")
            self._write(
                replace(access, sha256=_hash(secret), expires=expires or access.expires)
                if access.name == name
                else access
                for access in tokens
            )
        return secret

    def revoke(self, name: str) -> None:
        with self._alone():
            tokens = self.tokens()
            left = tuple(access for access in tokens if access.name != name)
            if len(left) == len(tokens):
                raise NotFound(f"There is no token {name!r}.")
            self._write(left)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Prevent other processes from changing the file. Locks its folder, because the file itself is replaced."""
        try:
            folder = os.open(self.path.parent, os.O_RDONLY)
        except OSError as error:
            raise InvalidInput(f"{self.path} cannot be written: {error.strerror}.") from None
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _write(self, tokens: Iterable[Access]) -> None:
        lines = ["# Made by `moulin access`. Hashes of tokens; the tokens themselves are kept nowhere.\n"]
        for access in tokens:
            lines += [f"\n[tokens.{access.name}]", f'role = "{access.role.name.lower()}"']
            lines.append(f'sha256 = "{access.sha256}"')
            if access.expires is not None:
                lines.append(f"expires = {access.expires.isoformat().replace('+00:00', 'Z')}")
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=".access-")  # readable by its owner only
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(self.path)


def _secret() -> str:
    return _PREFIX + secrets.token_urlsafe(32)


def _end(days: float | None) -> datetime | None:
    """When a token ends that begins now; None for never."""
    if days is not None and not 0 < days <= 36_500:
        raise InvalidInput(f"The lifetime of a token must be more than 0 and at most 36500 days, not {days}.")
    return None if days is None else (datetime.now(UTC) + timedelta(days=days)).replace(microsecond=0)


def _read(path: Path) -> tuple[Access, ...]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"{path.name} cannot be read: {error}.") from None
    if unknown := document.keys() - {"tokens"}:
        raise InvalidInput(f"{path.name} has an unknown key {min(unknown)!r}: only [tokens] is allowed.")
    return tuple(_access(path, name, fields) for name, fields in document.get("tokens", {}).items())


def _access(path: Path, name: str, fields: Mapping[str, object]) -> Access:
    known, wanted = {"role", "sha256", "expires"}, {"role", "sha256"}
    if not isinstance(fields, dict) or not wanted <= fields.keys() <= known:
        raise InvalidInput(f"[tokens.{name}] in {path.name} may only have role, sha256 and expires.")
    digest, expires = str(fields["sha256"]).lower(), fields.get("expires")
    if not _HASH.fullmatch(digest):
        raise InvalidInput(f"sha256 of [tokens.{name}] in {path.name} must be 64 hexadecimal digits.")
    if isinstance(expires, str):
        with suppress(ValueError):
            expires = datetime.fromisoformat(expires)
    if expires is not None and (not isinstance(expires, datetime) or expires.tzinfo is None):
        raise InvalidInput(
            f"expires of [tokens.{name}] in {path.name} must be a time with a time zone: 2027-01-01T00:00:00Z."
        )
    return Access(name, to_role(str(fields["role"])), digest, expires)


def to_role(text: str) -> Role:
    try:
        return Role[text.upper()]
    except KeyError:
        raise InvalidInput(f"A role must be one of {', '.join(r.name.lower() for r in Role)}, not {text!r}.") from None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


Authenticate = Callable[[str, Iterable[tuple[str, str | bytes]]], Caller]


class Authenticator(Protocol):
    """Identifies the caller of a token; Unauthenticated if it is unknown."""

    def authenticate(self, token: str) -> Caller: ...


class Gate:
    """Decides who may call what. `roles` gives the role that each method takes; others are for admins."""

    def __init__(self, access: Authenticator | None, roles: Mapping[str, Role]) -> None:
        self._access, self._roles = access, roles

    def __call__(self, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> Caller:
        """Who calls; Unauthenticated or PermissionDenied when they may not."""
        if self._access is None or method.startswith(_OPEN):
            return ANYONE
        known = self._access.authenticate(bearer(metadata))
        needed = self._roles.get(method, Role.ADMIN)
        if known.role < needed:
            raise PermissionDenied(
                f"{method.rpartition('/')[2]} takes the role {needed.name.lower()}, and token {known.name!r} has "
                f"{known.role.name.lower()}."
            )
        return known


def bearer(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """The token in the `authorization` entry of metadata or headers."""
    given = next((value for key, value in metadata if key.lower() == "authorization"), "")
    kind, _, token = str(given).partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise Unauthenticated("This server requires a token: send it as `authorization: Bearer ...` (MOULIN_TOKEN).")
    return token.strip()
