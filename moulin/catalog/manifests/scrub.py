"""Erasures in storage: rewrites manifests of older versions without the erased rows.

They keep their names. A recovery before or during that applies the erasure when it reads them (`recover.py`); the lake
manifest of its version contains it.
"""

# Decisions: docs/decisions/0441

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import Pool, chunks
from moulin.errors import Corrupt
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.formats.erasure import Scrubber, column_files, described
from moulin.storage import paths
from moulin.storage.store import Store


class Rewritten(NamedTuple):
    """An object that was rewritten under its name, and its new SHA-256."""

    path: str
    sha256: str


def erasures_after(connection: sa.Connection, version: int) -> list[pb.Erasure]:
    """The erasures committed after a version, in order."""
    e = s.erasures
    query = sa.select(e.c.data).where(e.c.version > version, e.c.data.is_not(None)).order_by(e.c.version)
    return [pb.Erasure.FromString(data) for data in connection.execute(query).scalars()]


def unfinished(connection: sa.Connection) -> list[pb.Erasure]:
    """Committed but unfinished erasures; full lake manifests contain them."""
    e = s.erasures
    query = sa.select(e.c.data).where(e.c.data.is_not(None), e.c.finished_at.is_(None)).order_by(e.c.version)
    return [pb.Erasure.FromString(data) for data in connection.execute(query).scalars()]


def scrub_storage(pool: Pool, store: Store, erasure: pb.Erasure) -> Iterator[Rewritten]:
    """Rewrite the manifests of the tables of an erasure that contain erased values."""
    scrubber = Scrubber(erasure)
    for path in _manifests(store, [UUID(bytes=one) for one in erasure.tables]):
        yield from scrub_object(pool, store, path, scrubber)


def scrub_object(pool: Pool, store: Store, path: str, scrubber: Scrubber) -> Iterator[Rewritten]:
    """Rewrite one manifest if it contains erased values."""
    data = store.get(path)
    decoded = codec.decode(data, path)
    if not decoded.writable:
        raise Corrupt(f"{path} was written by a newer release: erase with that release.")
    with pool.read() as connection:
        forgotten = described(decoded.manifest) - _known(connection, sorted(described(decoded.manifest)))
        paths_there = column_files(decoded.manifest)
        gone = paths_there - _known_files(connection, sorted(paths_there))
    if scrubber.scrub(decoded.manifest, forgotten, gone):
        clean = codec.encode(decoded.manifest, full=decoded.full)
        store.put(path, clean)
        yield Rewritten(path, hashlib.sha256(clean).hexdigest())


def _manifests(store: Store, table_ids: Iterable[UUID]) -> Iterator[str]:
    """The manifests of tables, and the copies of those discarded by a recovery."""
    wanted = set(table_ids)
    for table_id in sorted(wanted):
        listed = [info.path for info in store.list(paths.table_manifests_prefix(table_id))]
        yield from (path for path in listed if paths.parse_table_manifest(path) is not None)
    for info in list(store.list(paths.discarded_manifests_prefix())):
        _, _, name = info.path.partition(f"/{paths.tables_prefix()}/")
        found = paths.parse_table_manifest(f"{paths.tables_prefix()}/{name}")
        if found is not None and found[0] in wanted:
            yield info.path


def _known_files(connection: sa.Connection, every: Sequence[str]) -> set[str]:
    f = s.column_files
    found: set[str] = set()
    for chunk in chunks(every):
        found.update(connection.execute(sa.select(f.c.path).where(f.c.path.in_(chunk))).scalars())
    return found


def _known(connection: sa.Connection, numbers: Sequence[int]) -> set[int]:
    g = s.segments
    found: set[int] = set()
    for chunk in chunks(numbers):
        found.update(connection.execute(sa.select(g.c.number).where(g.c.number.in_(chunk))).scalars())
    return found
