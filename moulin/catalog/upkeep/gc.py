"""Clean-up in two phases, each safe to stop anywhere: first the catalog forgets, later bytes are deleted.

1. Dropped objects past their grace window are purged, versions past their time forgotten; what only they named goes
to the trash. 2. Manifests that no recovery needs any more follow, once newer full ones are in storage. 3. What has
lain in the trash for `byte_floor` is deleted, and files that no row names and that are older than `orphan_grace`.
Nothing is done unless all clocks agree (clocks.py), and nothing that a living process uses is touched (living.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import Any, TypeVar
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog import expiry
from moulin.catalog.catalog import Catalog
from moulin.catalog.commit import requests
from moulin.catalog.expiry import Expired, Garbage
from moulin.catalog.manifests.index import ManifestIndex
from moulin.catalog.objects.pins import forget_pins
from moulin.catalog.segments import staging
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.draft import Draft
from moulin.catalog.streams import streams
from moulin.catalog.tasks import task_list as merge_task_list
from moulin.catalog.upkeep import clocks, ownership
from moulin.errors import FailedPrecondition, MoulinError
from moulin.storage import paths
from moulin.storage.file_kinds import FileKind, identify, table_of_folder
from moulin.storage.store import ObjectInfo

log = logging.getLogger(__name__)
_BATCH = 500
_AT_ONCE = 5000  # rows deleted in one transaction
# What clean-up deletes one by one; logs and lists of backfills go with the folder of a purged table alone.
_SWEPT = frozenset(
    {
        FileKind.SEGMENT,
        FileKind.KEY_INDEX,
        FileKind.VECTORS,
        FileKind.JOURNAL,
        FileKind.INDEX_FILE,
        FileKind.PROJECTION,
        FileKind.ENGINE_FILE,
        FileKind.TEMPORARY,
    }
)
_MANIFESTS = frozenset({FileKind.TABLE_MANIFEST, FileKind.LAKE_MANIFEST})
_T = TypeVar("_T")


@dataclass(slots=True)
class Collection:
    """What a clean-up did, or with `dry_run` would do. `clock` is the time that it goes by."""

    dry_run: bool
    clock: Callable[[], int] = field(repr=False, compare=False)
    purged: list[str] = field(default_factory=list)
    expired: list[Expired] = field(default_factory=list)
    trashed: list[Garbage] = field(default_factory=list)
    deleted: list[Garbage] = field(default_factory=list)
    waiting: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def bytes_deleted(self) -> int:
        return sum(garbage.size for garbage in self.deleted)


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
    """Clean up a lake. The times, in seconds, override the configuration for this run.

    Without `orphans` the storage is not listed for files that no row names. FailedPrecondition, with nothing done, when
    clocks disagree.
    """
    config = catalog.config
    keep = config.history_keep if history_keep is None else history_keep
    floor = config.byte_floor if byte_floor is None else byte_floor
    grace = config.orphan_grace if orphan_grace is None else orphan_grace
    result = Collection(dry_run, clocks.agreed(catalog.engine, catalog.store))
    catalog.release_idle_pins()
    if not dry_run:
        catalog.publisher.publish()  # bytes are deleted only of what recovery knows to be gone
    _purge(catalog, result, floor)
    if not dry_run:
        requests.forget(catalog.engine, config.request_keep)
        forget_pins(catalog.engine, result.clock())
    _expire(catalog, result, keep, floor)
    if not dry_run:
        catalog.publisher.publish()
        _trim_manifests(catalog, result, floor)
    _empty_trash(catalog, result)
    _sweep_staged(catalog, result, floor)
    if orphans:
        _sweep_orphans(catalog, result, grace)
    return result


def _purge(catalog: Catalog, result: Collection, floor: float) -> None:
    if not result.dry_run:
        _empty_doomed_tables(catalog, result)
    with suppress(_Undo), catalog.engine.write() as write:
        draft = Draft(write, catalog.uuid, "purge")
        now, in_use = result.clock(), catalog.engine.in_use()  # no table is dropped between here and the purge
        result.purged, garbage = expiry.purge(draft, now, catalog.config.token_recheck, in_use.pins)
        keep = max(catalog.config.checkpoint_keep, catalog.config.blob_keep)  # they say which objects may go
        streams.purge(draft, now, catalog.config.blob_keep, keep, in_use.oldest_pin())
        result.trashed += garbage
        expiry.throw_away(draft.connection, garbage, now + int(floor * NANOS))
        draft.save()
        if result.dry_run:
            raise _Undo


def _empty_doomed_tables(catalog: Catalog, result: Collection) -> None:
    """Nobody can bring back a table past its grace window: its rows go ahead of it, in steps, without the lock."""
    with catalog.engine.read() as connection:
        doomed = sa.select(s.tables.c.id).where(expiry.doomed(result.clock()))
        ids = set(connection.execute(doomed).scalars())
    for table_id in ids - catalog.engine.in_use().pins.keys():
        more = True
        while more:
            with catalog.engine.unordered() as connection:
                _, more = expiry.forget(connection, table_id, s.OPEN, _AT_ONCE)


def _expire(catalog: Catalog, result: Collection, keep: float, floor: float) -> None:
    """First the promise, in a short transaction under the lock; then rows, a few at a time and without it."""
    with catalog.engine.read() as connection:
        ids = list(connection.execute(sa.select(s.tables.c.id).where(s.tables.c.tombstoned_at.is_(None))).scalars())
    pins = catalog.engine.in_use().pins
    for table_id in ids:
        with suppress(_Undo), catalog.engine.write() as write:
            draft = Draft(write, catalog.uuid, "gc")
            if (found := _expire_table(draft, table_id, result.clock(), keep, pins.get(table_id))) is not None:
                result.expired.append(found)
                draft.save()
                if result.dry_run:
                    raise _Undo
    _forget(catalog, result, floor)


def _forget(catalog: Catalog, result: Collection, floor: float) -> None:
    """Rows that no kept version needs; also those that an earlier run was stopped at."""
    with catalog.engine.read() as connection:
        oldest = {row.id: row.oldest_version for row in connection.execute(sa.select(s.tables))}
    oldest.update({found.table_id: found.oldest_version for found in result.expired})
    pins = catalog.engine.in_use().pins  # only now: a reader that comes later finds that its version is not kept
    for table_id, version in oldest.items():
        version = min(version, pins.get(table_id, version))
        more = True
        while more:
            with suppress(_Undo), catalog.engine.unordered() as connection:
                limit = None if result.dry_run else _AT_ONCE
                garbage, more = expiry.forget(connection, table_id, version, limit)
                result.trashed += garbage
                expiry.throw_away(connection, garbage, result.clock() + int(floor * NANOS))
                if result.dry_run:
                    raise _Undo


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
    with catalog.engine.read() as connection:
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
    with catalog.engine.unordered() as connection:
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


def _empty_trash(catalog: Catalog, result: Collection) -> None:
    t = s.trash
    with catalog.engine.read() as connection:
        now = result.clock()
        mine: sa.ColumnElement[bool] = sa.true()
        if catalog.config.delete_bytes == "off":  # others delete what the segment deletion service offers
            mine = sa.and_(t.c.segment.is_(None), t.c.output.is_(None))
        due = connection.execute(sa.select(t).where(t.c.delete_after <= now, mine).order_by(t.c.path)).all()
        result.waiting = connection.execute(
            sa.select(sa.func.count()).select_from(t).where(t.c.delete_after > now)
        ).scalar_one()
    if any(row.path.endswith("/") for row in due) and not result.dry_run:
        # With it, no recovery looks at versions whose only manifests go with the folder of a purged table.
        catalog.publisher.write_full(None)
    for rows in _blocks(due):
        with catalog.engine.read() as connection:
            kept = _still_named(connection, [row.path for row in rows])
        rows = [row for row in rows if row.path not in kept]
        gone = rows if result.dry_run else _delete(catalog, rows, result)
        result.deleted += [Garbage(row.path, row.size, row.reason) for row in gone]
        if not result.dry_run:
            with catalog.engine.unordered() as connection:
                connection.execute(t.delete().where(t.c.path.in_([*kept, *(row.path for row in gone)])))
    if due and not result.dry_run:
        catalog.store.remove_empty_folders(paths.tables_prefix())


def _delete(catalog: Catalog, rows: Sequence[Any], result: Collection) -> Sequence[Any]:
    """Delete objects, one by one if the store refuses all at once; returns the rows of those that are gone."""
    try:
        _erase(catalog, (row.path for row in rows))
    except MoulinError as error:
        if len(rows) > 1:
            return [row for row in rows for _ in _delete(catalog, [row], result)]
        _note_failure(catalog, rows, error, result)
        return []
    return rows


def _erase(catalog: Catalog, objects: Iterable[str]) -> None:
    """The only function that deletes bytes. What has no shape that clean-up deletes stops it, and stays."""
    catalog.store.delete(chain.from_iterable(_shaped(catalog, path) for path in objects))


def _shaped(catalog: Catalog, path: str) -> Iterator[str]:
    """The object of this path, or all objects of a table that was purged. No other folder is ever listed."""
    table_id, found = table_of_folder(path), identify(path)
    if table_id is not None:
        yield from (info.path for info in catalog.store.list(paths.table_prefix(table_id)))
    elif found is not None and found.kind in _SWEPT | _MANIFESTS:
        yield path
    else:
        raise FailedPrecondition(
            f"{path[:200]!r} is not the name of a file that clean-up deletes: it stays. Find out what put it there."
        )


def _still_named(connection: sa.Connection, trash: Sequence[str]) -> set[str]:
    """What lies in the trash and is in use. Nothing brings it back, but deleted bytes stay deleted: look again."""
    named = ownership.in_use(connection, trash)
    tables = {f"{paths.table_prefix(table_id)}/" for table_id in connection.execute(sa.select(s.tables.c.id)).scalars()}
    return named | tables.intersection(trash)


def _note_failure(catalog: Catalog, rows: Sequence[Any], error: MoulinError, result: Collection) -> None:
    result.failures.append(error.message)
    with catalog.engine.unordered() as connection:
        connection.execute(
            s.trash.update()
            .where(s.trash.c.path.in_([row.path for row in rows]))
            .values(failures=s.trash.c.failures + 1, last_error=error.message[:500])
        )


def _sweep_staged(catalog: Catalog, result: Collection, floor: float) -> None:
    """Uploads under numbers that were handed out, and never registered while that lasted."""
    with catalog.engine.read() as connection:
        over = staging.due(connection, result.clock() - int(floor * NANOS))
        over = [staged for staged in over if not merge_task_list.holds(connection, staged.owner)]
    done = []
    for staged in over:
        folders = (paths.segment_folder(staged.table_id, staged.first + offset) for offset in range(staged.count))
        infos = [info for folder in folders for info in catalog.store.list(folder)]
        with catalog.engine.read() as connection:
            named = _named(connection, infos)
        left = [info for info in infos if info.path not in named]
        if not result.dry_run:
            try:
                _erase(catalog, (info.path for info in left))
            except MoulinError as error:
                result.failures.append(error.message)
                continue
        result.deleted += [Garbage(info.path, info.size, "never registered") for info in left]
        done.append(staged)
    if done and not result.dry_run:
        with catalog.engine.unordered() as connection:
            staging.forget(connection, done)


def _sweep_orphans(catalog: Catalog, result: Collection, grace: float) -> None:
    """Files of failed or repeated tasks and of killed writers: named by no row, and old.

    After a recovery they wait as long: they may be all that is left of commits that were never published. While
    manifests that a recovery gave up lie aside, none is deleted: they may be files of those versions.
    """
    if any(True for _ in catalog.store.list(paths.discarded_manifests_prefix())):
        return
    with catalog.engine.read() as connection:
        now = result.clock()
        lives = s.incarnations
        recovered = connection.execute(
            sa.select(sa.func.max(lives.c.started_at)).where(lives.c.number > 1)
        ).scalar_one()
    if recovered is not None and recovered > now - int(grace * NANOS):
        return
    before = datetime.fromtimestamp(now / NANOS, UTC) - timedelta(seconds=grace)
    old = (info for info in catalog.store.list(paths.tables_prefix()) if info.modified < before)
    for infos in _blocks(old):
        in_use = catalog.engine.in_use()  # before the catalog is asked: a commit comes before its numbers are given up
        with catalog.engine.read() as connection:
            named = _named(connection, infos, now)
        orphans = [info for info in infos if info.path not in named and not in_use.may_be_committed(info.path)]
        garbage = [Garbage(info.path, info.size, "orphan") for info in orphans]
        if not result.dry_run:
            try:
                _erase(catalog, (info.path for info in orphans))
            except MoulinError as error:
                result.failures.append(error.message)
                continue
        result.deleted += garbage


def _named(connection: sa.Connection, infos: Sequence[ObjectInfo], now: int = 0) -> set[str]:
    """The paths among `infos` that the catalog knows, that wait in the trash, or that are not a lake's to delete.

    With `now`, also those that somebody may still register.
    """
    every = [info.path for info in infos]
    named = {path for path in every if (found := identify(path)) is None or found.kind not in _SWEPT}
    named.update(ownership.in_trash(connection, every))
    named.update(ownership.in_use(connection, every))
    named.update(_staged(connection, every, now))
    return named


def _staged(connection: sa.Connection, every: Sequence[str], now: int) -> Iterator[str]:
    ranges = staging.live_ranges(connection, now) if now else []
    for path in every:
        number = paths.segment_number(path) if ranges else None
        if number is not None and any(number in numbers for numbers in ranges):
            yield path


def _blocks(items: Iterable[_T]) -> Iterator[list[_T]]:
    source = iter(items)
    while block := list(islice(source, _BATCH)):
        yield block
