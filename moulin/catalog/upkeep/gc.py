"""Clean-up in two phases, each safe to stop anywhere: first the catalog forgets, later bytes are deleted.

1. Dropped objects past their grace window are purged, versions past their time forgotten; what only they named goes
to the trash. 2. Manifests that no recovery needs any more follow, once newer full ones are in storage. 3. What has
lain in the trash for `byte_floor` is deleted, and files that no row names and that are older than `orphan_grace`
(sweep.py).

Nothing is done unless all clocks agree (clocks.py), and nothing that a living process uses is touched (sql/living.py).
"""

# Decisions: docs/decisions/0191

from __future__ import annotations

import logging
from contextlib import suppress
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog import expiry, old_versions
from moulin.catalog.catalog import Catalog
from moulin.catalog.commit import branches, requests
from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.expiry import Expired, Garbage
from moulin.catalog.manifests.index import ManifestIndex
from moulin.catalog.objects import refs
from moulin.catalog.objects.pins import forget_pins
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.draft import Draft
from moulin.catalog.streams import streams
from moulin.catalog.upkeep import clocks, erasures, sweep
from moulin.catalog.upkeep.collection import Collection
from moulin.errors import Conflict, InvalidInput, MoulinError, NotFound
from moulin.model.operations import SetProperties
from moulin.storage import paths

log = logging.getLogger(__name__)
_AT_ONCE = 5000  # rows deleted in one transaction


class _Undo(Exception):
    """Leaves a dry run's transaction."""


def collect(
    catalog: Catalog,
    *,
    dry_run: bool = False,
    history_keep: float | None = None,
    orphan_grace: float | None = None,
    byte_floor: float | None = None,
    orphans: bool = True,
) -> Collection:
    """Clean up a lake. The times, in seconds, override the configuration for this clean-up.

    Without `orphans` the storage is not listed for files that no row names. FailedPrecondition, with nothing done, when
    clocks disagree.
    """
    for seconds in (history_keep, orphan_grace, byte_floor):
        if seconds is not None and not seconds >= 0:
            raise InvalidInput(f"A time to keep must be zero seconds or more, not {seconds}.")
    config = catalog.config
    keep = config.history_keep if history_keep is None else history_keep
    floor = config.byte_floor if byte_floor is None else byte_floor
    grace = config.orphan_grace if orphan_grace is None else orphan_grace
    result = Collection(dry_run, clocks.agreed(catalog.pool, catalog.store))
    catalog.release_idle_pins()
    if not dry_run:
        catalog.publisher.publish()  # bytes are deleted only of what recovery knows to be gone
        _finish_erasures(catalog)
    _drop_expired_branches(catalog, result)
    _drop_lapsed_refs(catalog, result)
    _purge(catalog, result, floor)
    if not dry_run:
        requests.forget(catalog.pool, config.request_keep)
        forget_pins(catalog.pool, result.clock())
    _expire(catalog, result, keep, floor)
    if not dry_run:
        _forget_versions(catalog)
        catalog.publisher.publish()
        _trim_manifests(catalog, result, floor)
    sweep.empty_trash(catalog, result)
    sweep.sweep_staged(catalog, result, floor)
    if orphans:
        sweep.sweep_orphans(catalog, result, grace, floor)
    return result


def _finish_erasures(catalog: Catalog) -> None:
    """Finish a killed erase; one that did not commit must be run again by its caller."""
    erasures.finish_all(catalog)
    for row in erasures.begun(catalog):
        if row.version is None:
            log.warning("An erase of table %s (%s) started but did not commit: run it again", row.table_id, row.outline)


def _drop_expired_branches(catalog: Catalog, result: Collection) -> None:
    with catalog.pool.read() as connection:
        over = branches.expired(connection, result.clock())
    for name in over if not result.dry_run else ():
        with suppress(NotFound):
            catalog.drop_branch(name)


def _drop_lapsed_refs(catalog: Catalog, result: Collection) -> None:
    """Names of snapshots that are older than their tables let names become: each is removed by a commit of its own."""
    with catalog.pool.read() as connection:
        rows = connection.execute(sa.select(s.tables).where(s.tables.c.tombstoned_at.is_(None))).all()
        found = {row.id: refs.lapsed(connection, row, result.clock()) for row in rows}
    for row in rows if not result.dry_run else ():
        if over := found[row.id]:
            operation = SetProperties({}, tuple(ref.key for ref in over))
            names = ", ".join(ref.name for ref in over)
            with suppress(NotFound, Conflict):  # removed, or set again: the next clean-up checks it
                catalog.commit([TableCommit(row.id, row.head_version, operation, {"lapsed": names})])


def _purge(catalog: Catalog, result: Collection, floor: float) -> None:
    if not result.dry_run:
        _empty_doomed_tables(catalog, result, floor)
    with suppress(_Undo), catalog.pool.write() as write:
        draft = Draft(write, catalog.uuid, "purge")
        now, in_use = result.clock(), catalog.pool.in_use()  # no table is dropped between here and the purge
        offer = catalog.config.delete_bytes == "off"
        gone = branches.purge(draft, now)  # first: main keeps tables for them
        names, garbage = expiry.purge(draft, now, catalog.config.token_recheck, in_use.pins, offer=offer)
        result.purged = gone + names
        keep = max(catalog.config.checkpoint_keep, catalog.config.blob_keep)  # they say which objects may go
        streams.purge(draft, now, catalog.config.blob_keep, keep, in_use.oldest_pin())
        result.trashed += garbage
        expiry.throw_away(draft.connection, garbage, now + int(floor * NANOS))
        draft.save()
        if result.dry_run:
            raise _Undo


def _empty_doomed_tables(catalog: Catalog, result: Collection, floor: float) -> None:
    """A table past its grace period cannot be resurrected: delete its rows first, in steps, without the lock."""
    with catalog.pool.read() as connection:
        doomed = connection.execute(sa.select(s.tables).where(expiry.doomed(result.clock()))).all()
    read = catalog.pool.in_use().pins
    for row in doomed:
        more = row.id not in read
        while more:
            with catalog.pool.unordered() as connection:
                garbage, more = expiry.forget(connection, row.id, s.OPEN, _AT_ONCE)
                left = expiry.elsewhere(row.id, garbage)
                if catalog.config.delete_bytes == "off":
                    left = expiry.of_dropped(connection, row, garbage)
                expiry.throw_away(connection, left, result.clock() + int(floor * NANOS))


def _expire(catalog: Catalog, result: Collection, keep: float, floor: float) -> None:
    """First the promise, in a short transaction under the lock; then rows, a few at a time and without it."""
    with catalog.pool.read() as connection:
        ids = list(connection.execute(sa.select(s.tables.c.id).where(s.tables.c.tombstoned_at.is_(None))).scalars())
    pins = catalog.pool.in_use().pins
    for table_id in ids:
        with suppress(_Undo), catalog.pool.write() as write:
            draft = Draft(write, catalog.uuid, "gc")
            if (found := _expire_table(draft, table_id, result.clock(), keep, pins.get(table_id))) is not None:
                result.expired.append(found)
                draft.save()
                if result.dry_run:
                    raise _Undo
    _forget(catalog, result, floor)


def _forget(catalog: Catalog, result: Collection, floor: float) -> None:
    """Rows that no kept version needs; including those that an earlier clean-up was stopped at."""
    with catalog.pool.read() as connection:
        oldest = {row.id: row.oldest_version for row in connection.execute(sa.select(s.tables))}
    oldest.update({found.table_id: found.oldest_version for found in result.expired})
    pins = catalog.pool.in_use().pins  # only now: a reader that comes later finds that its version is not kept
    for table_id, version in oldest.items():
        version = min(version, pins.get(table_id, version))
        more = True
        while more:
            with suppress(_Undo), catalog.pool.unordered() as connection:
                limit = None if result.dry_run else _AT_ONCE
                garbage, more = expiry.forget(connection, table_id, version, limit)
                result.trashed += garbage
                expiry.throw_away(connection, garbage, result.clock() + int(floor * NANOS))
                if result.dry_run:
                    raise _Undo


def _forget_versions(catalog: Catalog) -> None:
    """Delete commits and versions that nobody can read, a few at a time and without the lock."""
    with catalog.pool.read() as connection:
        oldest = {row.id: row.oldest_version for row in connection.execute(sa.select(s.tables))}
    pins = catalog.pool.in_use().pins
    for table_id, version in oldest.items():
        more = True
        while more:
            with catalog.pool.unordered() as connection:
                version = min(version, pins.get(table_id, version))
                more = old_versions.forget_commits(connection, table_id, version, _AT_ONCE)
    gone = [0]
    while gone:
        with catalog.pool.read() as connection:
            gone = old_versions.past_versions(connection, _AT_ONCE)
        if gone:
            with catalog.pool.unordered() as connection:
                old_versions.delete_versions(connection, gone)


def _expire_table(draft: Draft, table_id: UUID, now: int, keep: float, pinned: int | None) -> Expired | None:
    t, d = s.tables, s.databases
    row = draft.connection.execute(
        sa.select(t, d.c.name.label("database"))
        .join(d, d.c.id == t.c.database_id)
        .where(t.c.id == table_id, t.c.tombstoned_at.is_(None))
    ).first()
    if row is None:
        return None
    version = expiry.oldest_kept(draft.connection, row, now, keep, pinned)
    return expiry.expire(draft, row, row.database, version) if version > row.oldest_version else None


def _trim_manifests(catalog: Catalog, result: Collection, floor: float) -> None:
    """Manifests older than a full one that recovery can start from. A new full manifest of the lake comes first."""
    with catalog.pool.read() as connection:
        counter = connection.execute(sa.select(s.counter.c.version, s.counter.c.deltas)).one()
        rows = connection.execute(sa.select(s.tables.c.id, s.tables.c.oldest_version))
        oldest: dict[UUID, int] = {row.id: row.oldest_version for row in rows}
        long = connection.execute(
            sa.select(s.tables.c.id).where(s.tables.c.deltas > catalog.config.manifest_deltas)
        ).scalars()
        for table_id in long.all():
            catalog.publisher.write_full_if_due([table_id])
    garbage = [g for table_id, version in oldest.items() for g in _old_table_manifests(catalog, table_id, version)]
    if not garbage and counter.deltas <= catalog.config.manifest_deltas:
        return
    catalog.publisher.write_full(None)
    listed = list(catalog.store.list(paths.lake_manifests_prefix()))
    parsed = [(found, info) for info in listed if (found := paths.parse_lake_manifest(info.path))]
    newest = max((version for (version, kind), _ in parsed if kind == "full"), default=0)
    if not _is_readable(catalog, paths.lake_manifest(newest, "full")):
        return
    garbage += [Garbage(info.path, info.size, "old manifest") for (version, _), info in parsed if version < newest]
    # Versions up to the lake's full manifest need no proof of being complete, so parts of them may go.
    garbage = [g for g in garbage if _version_of(g.path) < newest]
    result.trashed += garbage
    with catalog.pool.unordered() as connection:
        expiry.throw_away(connection, garbage, result.clock() + int(floor * NANOS))


def _old_table_manifests(catalog: Catalog, table_id: UUID, oldest: int) -> list[Garbage]:
    """Manifests of a table below the newest full one that is not younger than the oldest kept version."""
    infos = catalog.store.list(paths.table_manifests_prefix(table_id))
    listed = [(found, info) for info in infos if (found := paths.parse_table_manifest(info.path))]
    base = max((version for (_, version, kind), _ in listed if kind == "full" and version <= oldest), default=0)
    garbage = [Garbage(info.path, info.size, "old manifest") for (_, version, _), info in listed if version < base]
    return garbage if garbage and _is_readable(catalog, paths.table_manifest(table_id, base, "full")) else []


def _is_readable(catalog: Catalog, full: str) -> bool:
    """Whether a full manifest can stand for those before it. They are kept where it is damaged."""
    try:
        ManifestIndex(catalog.store, catalog.uuid, after=0).read(full)
    except MoulinError as error:
        log.error("Older manifests are kept: %s", error)
        return False
    return True


def _version_of(path: str) -> int:
    lake = paths.parse_lake_manifest(path)
    if lake is not None:
        return lake[0]
    table = paths.parse_table_manifest(path)
    return table[1] if table is not None else 0
