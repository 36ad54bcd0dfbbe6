"""Vended credentials: keys of the storage for one table's files, for engines that ask for them.

They are vended for the folders of the table's files in the catalog, never for an address from a request.
"""

# Decisions: docs/decisions/0522

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Request

from moulin.iceberg.format.json import Json
from moulin.lake import Lake
from moulin.sized_cache import SizedCache
from moulin.storage import paths
from moulin.storage.sts import Credentials, Grant, Sts

HEADER: Final = "x-iceberg-access-delegation"
_VENDED: Final = "vended-credentials"
_FOLDER: Final = re.compile(rf"{paths.tables_prefix()}/[0-9a-f-]{{36}}")
_FOLDER_LENGTH: Final = len(paths.table_prefix(UUID(int=0)))
_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Borrower:
    """The caller of a table request: whether it wants credentials, and whether it may write."""

    name: str
    wants: bool
    writes: bool


@dataclass(frozen=True, slots=True)
class Lent:
    """Credentials for a table in the form of a response."""

    location: str
    credentials: Credentials
    config: Mapping[str, str]

    @property
    def storage_credentials(self) -> list[Json]:
        return [{"prefix": f"{self.location}/", "config": dict(self.config)}]

    def tag(self, tag: str) -> str:
        """The ETag of an answer that has these credentials: with other ones it is another answer."""
        text = f"{tag} {self.credentials.access_key_id}"
        return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'

    def join(self, body: Json) -> Json:
        """An answer about a table with these credentials in it."""
        return {**body, "config": {**body["config"], **self.config}, "storage-credentials": self.storage_credentials}


def _borrower(request: Request) -> Borrower:
    asked = {part.strip() for part in request.headers.get(HEADER, "").split(",")}
    auth, user = request.scope.get("auth"), request.scope.get("user")
    writes = auth is not None and "write" in auth.scopes
    return Borrower("" if user is None else user.display_name, _VENDED in asked, writes)


BorrowerOf = Annotated[Borrower, Depends(_borrower)]


def lend(lake: Lake, borrower: Borrower, table_id: UUID, endpoint: str, *, always: bool = False) -> Lent | None:
    """Credentials for a table's files; None where they are not asked for (but `always`), or none are lent.

    `endpoint` is where they are renewed. Nobody gets those of another caller, and nobody those that have lived for half
    of their time.
    """
    sts = lake.store.sts
    if sts is None or not (borrower.wants or always):
        return None
    grant = _grant(lake, table_id, borrower.writes)
    key = (lake.store.uri, borrower.name, table_id, grant)
    found = _lent.find(key)
    if found is None or found.half <= time.time():
        made = sts.lend(grant, borrower.name)
        found = _Kept(made, (made.expires + time.time()) / 2)
        _lent.keep(key, found)
    where = lake.store.location(paths.table_prefix(table_id))
    return Lent(where, found.credentials, _config(sts, found.credentials, endpoint))


@dataclass(frozen=True, slots=True)
class _Kept:
    credentials: Credentials
    half: float


_lent: SizedCache[Any, _Kept] = SizedCache(_KEPT)


def _grant(lake: Lake, table_id: UUID, writes: bool) -> Grant:
    """All files that a version of the table has; new ones beside them, and no new content for those of Moulin."""
    own = paths.table_prefix(table_id)
    others = {one for one in lake.own_catalog().maintenance.folders(table_id, _FOLDER_LENGTH) if _FOLDER.fullmatch(one)}
    readable = tuple(sorted({own, *others}))
    if not writes:
        return Grant(readable)
    data, metadata = paths.data_prefix(table_id), paths.metadata_prefix(table_id)
    return Grant(readable, (data, metadata), ((data, "_moulin_segment=*"), (metadata, "*.metadata.json")))


def _config(sts: Sts, credentials: Credentials, endpoint: str) -> dict[str, str]:
    """As the clients of the specification spell it."""
    config = {
        "s3.access-key-id": credentials.access_key_id,
        "s3.secret-access-key": credentials.secret_access_key,
        "s3.session-token": credentials.session_token,
        "s3.session-token-expires-at-ms": str(int(credentials.expires * 1000)),
        "s3.region": sts.region,
        "client.region": sts.region,
        "client.refresh-credentials-enabled": "true",
        "client.refresh-credentials-endpoint": endpoint,
    }
    if sts.endpoint:
        config |= {"s3.endpoint": sts.endpoint, "s3.path-style-access": "true"}
    return config


__all__ = ["Borrower", "BorrowerOf", "Lent", "lend"]
