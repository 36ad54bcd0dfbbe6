"""What a catalog has published, compared with the manifests in storage: `check` and mirrors ask."""

from __future__ import annotations

from collections import defaultdict

import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.manifests.index import ManifestIndex
from moulin.catalog.manifests.lake_replay import LakeReplay
from moulin.catalog.manifests.line import broken_chains, find_line, walk
from moulin.catalog.sql import schema as s
from moulin.errors import Corrupt, NotFound
from moulin.storage import paths

_ATTEMPTS = 3  # when clean-up removes manifests under our hands


def published_line(catalog: Catalog) -> tuple[ManifestIndex, list[Corrupt]]:
    """The manifests in storage, and what of them is missing although this catalog has published it."""
    for _ in range(_ATTEMPTS):
        published = catalog.publisher.published_version()
        index = ManifestIndex(catalog.store, catalog.uuid, writing=False)
        problems = _problems(catalog, index, published)
        if not problems:
            break
    return index, problems


def _problems(catalog: Catalog, index: ManifestIndex, published: int) -> list[Corrupt]:
    base = max((version for version in index.lake["full"] if version <= published), default=0)
    parts = _table_parts(catalog, base, published)
    try:
        line = find_line(index, sure=published, to_version=published, expected=lambda v: parts.get(v, set()))
        return list(broken_chains(index, line))
    except NotFound as error:  # listed, and gone by now
        return [Corrupt(error.message)]
    except Corrupt as error:
        return [error]


def is_whole(catalog: Catalog, index: ManifestIndex, after: int, until: int) -> bool:
    """Whether `index` holds every part of the versions in (after, until]. If not, clean-up may be why."""
    t = s.tables
    passed = sa.select(t.c.id).where(t.c.oldest_version > after, t.c.oldest_version > t.c.created_version)
    with catalog.pool.read() as connection:
        if connection.execute(passed.limit(1)).first() is not None:
            return False  # which parts those versions had may be forgotten
    parts = _table_parts(catalog, after, until)
    try:
        walk(index, after, LakeReplay(), sure=until, to_version=until, expected=lambda v: parts.get(v, set()))
    except (Corrupt, NotFound):
        return False
    return True


def _table_parts(catalog: Catalog, after: int, until: int) -> dict[int, set[str]]:
    """The deltas of the versions in (after, until] of tables that are still there."""
    c = s.table_commits
    told = sa.and_(c.c.version > after, c.c.version <= until, c.c.ordinal >= 0)  # packed ones name no manifest
    query = sa.select(c.c.table_id, c.c.version).where(told).distinct()
    parts: dict[int, set[str]] = defaultdict(set)
    with catalog.pool.read() as connection:
        for table_id, version in connection.execute(query):
            parts[version].add(paths.table_manifest(table_id, version, "delta"))
    return parts
