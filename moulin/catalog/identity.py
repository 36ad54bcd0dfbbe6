"""The identity of a lake: the marker in storage, and the row in the catalog."""

from __future__ import annotations

import json
from collections.abc import Mapping
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import GIVEN_UP, Pool
from moulin.errors import Corrupt, FailedPrecondition, Fenced, NotFound, Unsupported
from moulin.model.ids import new_id
from moulin.storage import paths
from moulin.storage.store import Store

RESERVES = ("segment", "vector")
_BLOCK = 1_000_000


def read_marker(store: Store) -> dict[str, object] | None:
    """The marker that identifies the lake of a storage root; None if there is none."""
    try:
        data = store.get(paths.marker())
    except NotFound:
        return None
    try:
        marker = json.loads(data)
        found = int(marker["format"])
        UUID(marker["uuid"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Corrupt(f"{paths.marker()} in {store.uri} is not the marker of a lake.") from None
    if found > s.FORMAT:
        raise Unsupported(
            f"The lake in {store.uri} has format {found}; this release supports up to {s.FORMAT}: upgrade moulin."
        )
    return dict(marker)


def write_marker(store: Store, lake_uuid: UUID) -> None:
    store.put(paths.marker(), json.dumps({"format": s.FORMAT, "uuid": str(lake_uuid)}).encode() + b"\n")


def beyond(number: int) -> int:
    """The next number after a recovery: a round number, leaving room for numbers that were allocated but are not in
    storage.
    """
    return (number // _BLOCK + 2) * _BLOCK


def first_of_life(version: int) -> int:
    """The first version of the incarnation that wrote `version`, if the lake was ever recovered."""
    return version // _BLOCK * _BLOCK


def lost_catalog(store: Store) -> FailedPrecondition:
    return FailedPrecondition(
        f"The lake in {store.uri} has lost its catalog; `moulin recover` rebuilds it from the manifests in storage."
    )


def identify(pool: Pool, store: Store, marker: Mapping[str, object] | None) -> UUID:
    """The id of the lake, created if catalog and storage are new. A mismatch raises an error."""
    with pool.unordered() as connection:
        lock_lake(pool, connection)
        row = connection.execute(sa.select(s.lake)).first()
        if row is None and marker is not None:
            raise lost_catalog(store)
        if row is None:
            lake_uuid = new_id()
            _create_rows(connection, store.uri, lake_uuid, pool.now(connection))
            pool.incarnation = 1
            return lake_uuid
    if row.format > s.FORMAT:
        raise Unsupported(
            f"The catalog has lake format {row.format}; this release supports up to {s.FORMAT}: upgrade moulin."
        )
    if marker is not None and str(row.uuid) != marker["uuid"]:
        raise FailedPrecondition(f"The catalog and {store.uri} belong to different lakes; check both addresses.")
    if marker is None and row.storage != store.uri:
        raise FailedPrecondition(f"The catalog belongs to the lake in {row.storage}, but {store.uri} contains no lake.")
    if row.incarnation < 0:
        raise Fenced(GIVEN_UP)
    pool.incarnation = row.incarnation
    found: UUID = row.uuid
    return found


def lock_lake(pool: Pool, connection: sa.Connection) -> None:
    """Prevent others from creating or recovering the lake at the same time."""
    if not pool.is_sqlite:
        connection.execute(sa.text("LOCK TABLE lake IN SHARE ROW EXCLUSIVE MODE"))


def _create_rows(connection: sa.Connection, storage: str, lake_uuid: UUID, now: int) -> None:
    values = {"uuid": lake_uuid, "format": s.FORMAT, "storage": storage, "incarnation": 1, "created_at": now}
    connection.execute(s.lake.insert().values(id=1, **values))
    connection.execute(s.incarnations.insert().values(number=1, continues_from=0, first_version=0, started_at=now))
    connection.execute(s.counter.insert().values(id=1, version=0, response_seq=0, clock_ns=0, deltas=0))
    connection.execute(s.reserves.insert(), [{"name": name, "next": 1} for name in RESERVES])
