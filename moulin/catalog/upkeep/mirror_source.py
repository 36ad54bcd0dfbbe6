"""What a mirror has to copy: the files that kept versions name, from one snapshot of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.manifests.index import ManifestIndex
from moulin.catalog.manifests.scrub import erasures_after
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.upkeep import ownership
from moulin.catalog.upkeep.erasure import holds_values
from moulin.catalog.upkeep.published import is_whole, published_line
from moulin.catalog.upkeep.verification import KnownFile, known_files
from moulin.storage import paths
from moulin.storage.store import Store


@dataclass(frozen=True, slots=True)
class Source:
    """Everything of a lake up to `version`: files first, then manifests in the order in which they may appear.

    `read_manifest` gives the bytes of one, checked. Rows of the tables in `erased` were erased since the version that
    it begins after, and the files in `gone` deleted; then it holds all of the lake, whichever that is.
    """

    version: int
    files: Sequence[KnownFile]
    manifests: Sequence[str]
    read_manifest: Callable[[str], bytes]
    erased: frozenset[UUID] = frozenset()
    gone: frozenset[str] = frozenset()


def take(catalog: Catalog, after: int = 0) -> Source:
    """The files and manifests of the versions after `after`, up to the last one that is published.

    From 0 on that is all of the lake. What clean-up removes from storage afterwards, no later source names. Corrupt
    names a manifest that is missing.
    """
    catalog.publisher.publish()
    with catalog.pool.read() as connection:
        since = erasures_after(connection, after)
        erased = frozenset(UUID(bytes=one) for erasure in since for one in erasure.tables)
        gone = frozenset(path for erasure in since for path in erasure.deleted)
        after = 0 if erased else after
        newest = int(connection.execute(sa.select(s.counter.c.version)).scalar_one())
        table_ids = connection.execute(sa.select(s.tables.c.id)).scalars().all()
        # What lies below base paths stays there: manifests name it, and a lake at the target finds it.
        files = [file for file in known_files(connection, after) if paths.parse_base_path(file.path) is None]
    version = min(newest, catalog.publisher.published_version())
    index = _index(catalog, table_ids, after, version)
    return Source(version, files, _manifests(index, table_ids, version), index.read_bytes, erased, gone)


def _index(catalog: Catalog, table_ids: Sequence[UUID], after: int, version: int) -> ManifestIndex:
    """The manifests of the versions after `after`, of which none is missing that was published."""
    if after > 0:
        index = ManifestIndex(catalog.store, catalog.uuid, after=after, writing=False)
        index.add_lake(after)
        index.add_tables(table_ids, after)
        if is_whole(catalog, index, after, version):
            return index
    every, problems = published_line(catalog)
    if problems:
        raise problems[0]
    return index if after > 0 else every


def _manifests(index: ManifestIndex, table_ids: Sequence[UUID], version: int) -> list[str]:
    """Manifests in version order, and those of one version with full ones last: they stand for all before them."""
    mine = set(table_ids)
    found = []
    for number, name in index.names():
        table = paths.parse_table_manifest(name)
        if number <= version and (table is None or table[0] in mine):
            # "delta" < "full"; of full ones, that of the lake must come last.
            kind = name.rpartition(".")[2]
            found.append((number, kind, kind == "full" and table is None, name))
    return [name for *_, name in sorted(found)]


def not_in_use(catalog: Catalog, table_id: UUID, listed: Sequence[str]) -> list[str]:
    """Those of the objects that a mirror has of a table that may hold values, and that the lake has no more.

    Manifests of versions up to the last erase are compared with those in storage.
    """
    names = [info.path for info in catalog.store.list(paths.table_manifests_prefix(table_id))]
    with catalog.pool.read() as connection:
        last = max((erasure.version for erasure in erasures_after(connection, 0)), default=0)
        used = ownership.in_use(connection, listed)
    manifests = {path: found[1] for path in listed if (found := paths.parse_table_manifest(path)) is not None}
    gone = [path for path, version in manifests.items() if version < last and path not in names]
    return gone + [path for path in listed if path not in manifests and path not in used and holds_values(path)]


def has_successor(catalog: Catalog, target: Store, version: int) -> bool:
    """Whether the lake in `target` was recovered and is independent."""
    index = ManifestIndex(target, catalog.uuid, after=version, writing=False)
    index.add_lake(version)
    with catalog.pool.read() as connection:
        incarnation = connection.execute(sa.select(s.lake.c.incarnation)).scalar_one()
    return any(index.read(paths.lake_manifest(n, "full")).incarnation > incarnation for n in index.lake["full"])


def lag(catalog: Catalog, version: int) -> tuple[int, float]:
    """By how many versions and seconds the lake is ahead of `version`."""
    v = s.versions
    with catalog.pool.read() as connection:
        newest = int(connection.execute(sa.select(s.counter.c.version)).scalar_one())
        oldest = connection.execute(sa.select(sa.func.min(v.c.timestamp_ns)).where(v.c.version > version)).scalar()
        now = catalog.pool.now(connection)
    return newest - version, 0.0 if oldest is None else max(0.0, (now - int(oldest)) / NANOS)
