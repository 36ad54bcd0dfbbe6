"""What a mirror has to copy: the files that kept versions name, from one snapshot of the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog import backfills
from moulin.catalog import schema as s
from moulin.catalog.catalog import Catalog
from moulin.catalog.manifest_index import ManifestIndex
from moulin.catalog.tombstones import NANOS
from moulin.storage import paths
from moulin.storage.store import Store


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the lake; size and SHA-256 where the catalog knows them."""

    path: str
    size: int | None = None
    sha256: bytes | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Everything of a lake up to `version`: files first, then manifests in the order in which they may appear."""

    version: int
    files: Sequence[SourceFile]
    manifests: Sequence[tuple[int, str]]


def take(catalog: Catalog, after: int = 0) -> Source:
    """The files and manifests of the versions after `after`, up to the last one that is published.

    From 0 on that is all of the lake. What clean-up removes from storage afterwards, no later source names.
    """
    catalog.publisher.publish()
    g, d, j, i = s.segments, s.deletion_vectors, s.journals, s.index_files
    with catalog.engine.read() as connection:
        newest = int(connection.execute(sa.select(s.counter.c.version)).scalar_one())
        table_ids = connection.execute(sa.select(s.tables.c.id)).scalars().all()
        segments = sa.select(g.c.path, g.c.size, g.c.sha256, g.c.index_size).where(g.c.added_version > after)
        files = []
        for path, size, sha256, index_size in connection.execute(segments.order_by(g.c.number)):
            files.append(SourceFile(path, size, sha256))
            if index_size:
                files.append(SourceFile(paths.key_index_path(path), index_size))
        vectors = connection.execute(sa.select(d.c.path).where(d.c.added_version > after).distinct()).scalars()
        files += map(SourceFile, vectors)
        files += map(SourceFile, connection.execute(sa.select(j.c.path).where(j.c.version > after)).scalars())
        indexes = connection.execute(sa.select(i.c.path, i.c.size).where(i.c.added_version > after))
        files += [SourceFile(path, size) for path, size in indexes]
        files += map(SourceFile, backfills.files(connection, after))
    version = min(newest, catalog.publisher.published_version())
    return Source(version, files, _manifests(catalog, table_ids, after, version))


def _manifests(catalog: Catalog, table_ids: Sequence[UUID], after: int, version: int) -> list[tuple[int, str]]:
    """Manifests in version order, and those of one version with full ones last: they stand for all before them."""
    index = ManifestIndex(catalog.store, catalog.uuid, after=after)
    index.add_lake(after)
    index.add_tables(table_ids, after)
    kinds: tuple[paths.ManifestKind, ...] = ("delta", "full")
    found = [
        (number, kind, name)
        for kind in kinds
        for table_id, versions in ((None, index.lake), *index.tables.items())
        for number in versions[kind]
        if number <= version
        for name in [
            paths.lake_manifest(number, kind) if table_id is None else paths.table_manifest(table_id, number, kind)
        ]
    ]
    # "delta" < "full", and the lake's own folder sorts before those of tables: of full ones it must come last.
    found.sort(
        key=lambda item: (item[0], item[1], item[1] == "full" and paths.parse_lake_manifest(item[2]) is not None)
    )
    return [(number, name) for number, _, name in found]


def has_successor(catalog: Catalog, target: Store, version: int) -> bool:
    """Whether the lake in `target` was recovered there and goes on by itself."""
    index = ManifestIndex(target, catalog.uuid, after=version, writing=False)
    index.add_lake(version)
    with catalog.engine.read() as connection:
        incarnation = connection.execute(sa.select(s.lake.c.incarnation)).scalar_one()
    return any(index.read(paths.lake_manifest(n, "full")).incarnation > incarnation for n in index.lake["full"])


def lag(catalog: Catalog, version: int) -> tuple[int, float]:
    """How many versions, and seconds, the lake is ahead of `version`."""
    v = s.versions
    with catalog.engine.read() as connection:
        newest = int(connection.execute(sa.select(s.counter.c.version)).scalar_one())
        oldest = connection.execute(sa.select(sa.func.min(v.c.timestamp_ns)).where(v.c.version > version)).scalar()
        now = catalog.engine.now(connection)
    return newest - version, 0.0 if oldest is None else max(0.0, (now - int(oldest)) / NANOS)
