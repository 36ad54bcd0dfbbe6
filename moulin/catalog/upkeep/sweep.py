"""Clean-up in storage: bytes that have lain in the trash long enough, and files that no row names.

Before anything is deleted, the catalog is asked again whether a row names it (ownership.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.expiry import Garbage, throw_away
from moulin.catalog.segments import staging
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.tasks import task_list
from moulin.catalog.upkeep import ownership
from moulin.catalog.upkeep.collection import Collection
from moulin.catalog.upkeep.erasure import SWEPT, erase, holds_rows
from moulin.errors import MoulinError
from moulin.storage import paths
from moulin.storage.file_kinds import identify
from moulin.storage.store import ObjectInfo

_BATCH = 500
_T = TypeVar("_T")


def empty_trash(catalog: Catalog, result: Collection) -> None:
    """Delete objects that have been in the trash long enough, unless they are referenced."""
    t = s.trash
    with catalog.pool.read() as connection:
        now = result.clock()
        mine: sa.ColumnElement[bool] = sa.true()
        if not _deletes_rows(catalog):  # others delete what the segment deletion service offers
            mine = sa.and_(t.c.segment.is_(None), t.c.output.is_(None))
        due = connection.execute(sa.select(t).where(t.c.delete_after <= now, mine).order_by(t.c.path)).all()
        result.waiting = connection.execute(
            sa.select(sa.func.count()).select_from(t).where(t.c.delete_after > now)
        ).scalar_one()
    if any(row.path.endswith("/") for row in due) and not result.dry_run:
        # With it, no recovery looks at versions whose only manifests go with the folder of a purged table.
        catalog.publisher.write_full(None)
    for rows in _blocks(due):
        with catalog.pool.read() as connection:
            kept = _still_named(connection, [row.path for row in rows])
        rows = [row for row in rows if row.path not in kept]
        gone = rows if result.dry_run else _delete(catalog, rows, result)
        result.deleted += [Garbage(row.path, row.size, row.reason) for row in gone]
        if not result.dry_run:
            with catalog.pool.unordered() as connection:
                connection.execute(t.delete().where(t.c.path.in_([*kept, *(row.path for row in gone)])))
    if due and not result.dry_run:
        catalog.store.remove_empty_folders(paths.tables_prefix())


def _delete(catalog: Catalog, rows: Sequence[Any], result: Collection) -> Sequence[Any]:
    """Delete objects, one by one if the store refuses all at once; returns the rows of those that are gone."""

    def in_use(every: Sequence[str]) -> set[str]:
        with catalog.pool.read() as connection:
            return ownership.in_use(connection, every)

    try:
        erase(catalog.store, (row.path for row in rows), rows=_deletes_rows(catalog), in_use=in_use)
    except MoulinError as error:
        if len(rows) > 1:
            return [row for row in rows for _ in _delete(catalog, [row], result)]
        _note_failure(catalog, rows, error, result)
        return []
    return rows


def _still_named(connection: sa.Connection, trash: Sequence[str]) -> set[str]:
    """Objects in the trash that are referenced. This should not happen, but is checked before deletion."""
    named = ownership.in_use(connection, trash)
    tables = {f"{paths.table_prefix(table_id)}/" for table_id in connection.execute(sa.select(s.tables.c.id)).scalars()}
    return named | tables.intersection(trash)


def _note_failure(catalog: Catalog, rows: Sequence[Any], error: MoulinError, result: Collection) -> None:
    result.failures.append(error.message)
    with catalog.pool.unordered() as connection:
        connection.execute(
            s.trash.update()
            .where(s.trash.c.path.in_([row.path for row in rows]))
            .values(failures=s.trash.c.failures + 1, last_error=error.message[:500])
        )


def sweep_staged(catalog: Catalog, result: Collection, floor: float) -> None:
    """Uploads with staged numbers that were never registered in time."""
    with catalog.pool.read() as connection:
        over = staging.due(connection, result.clock() - int(floor * NANOS))
        over = [staged for staged in over if not task_list.holds(connection, staged.owner)]
    done = []
    for staged in over:
        folders = (paths.segment_folder(staged.table_id, staged.first + offset) for offset in range(staged.count))
        infos = [info for folder in folders for info in catalog.store.list(folder)]
        with catalog.pool.read() as connection:
            known = named(connection, infos)
        if _dispose(catalog, result, [info for info in infos if info.path not in known], "never registered", floor):
            done.append(staged)
    if done and not result.dry_run:
        with catalog.pool.unordered() as connection:
            staging.forget(connection, done)


def sweep_orphans(catalog: Catalog, result: Collection, grace: float, floor: float) -> None:
    """Files of failed or repeated tasks and of killed writers: named by no row, and old.

    After a recovery they wait as long: they may be all that is left of commits that were never published. While
    manifests that a recovery gave up lie aside, none is deleted: they may be files of those versions.
    """
    if any(True for _ in catalog.store.list(paths.discarded_manifests_prefix())):
        return
    with catalog.pool.read() as connection:
        now = result.clock()
        lives = s.incarnations
        recovered = connection.execute(
            sa.select(sa.func.max(lives.c.started_at)).where(lives.c.number > 1)
        ).scalar_one()
    if recovered is not None and recovered > now - int(grace * NANOS):
        return
    before = datetime.fromtimestamp(now / NANOS, UTC) - timedelta(seconds=grace)
    _sweep_old(catalog, result, paths.tables_prefix(), before, now, floor)
    for base in catalog.bases():
        try:
            _sweep_old(catalog, result, paths.moved_prefix(base.id, catalog.uuid), before, now, floor)
        except MoulinError as error:  # a base path that cannot be reached stops no other clean-up
            result.failures.append(error.message)


def _sweep_old(catalog: Catalog, result: Collection, prefix: str, before: datetime, now: int, floor: float) -> None:
    """Delete the orphans in a folder that are older than `before`."""
    old = (info for info in catalog.store.list(prefix) if info.modified < before)
    for infos in _blocks(old):
        in_use = catalog.pool.in_use()  # before the catalog is queried, because numbers are released after their commit
        with catalog.pool.read() as connection:
            known = named(connection, infos, now)
        orphans = [info for info in infos if info.path not in known and not in_use.may_be_committed(info.path)]
        _dispose(catalog, result, orphans, "orphan", floor)


def _dispose(catalog: Catalog, result: Collection, infos: Sequence[ObjectInfo], reason: str, floor: float) -> bool:
    """Delete unreferenced files; False if the store failed.

    With `delete_bytes` off, segments among them are offered to those who delete, and other files with rows stay.
    """
    gone = [info for info in infos if _deletes_rows(catalog) or not holds_rows(info.path)]
    if not result.dry_run:
        try:
            erase(catalog.store, (info.path for info in gone), rows=_deletes_rows(catalog))
        except MoulinError as error:
            result.failures.append(error.message)
            return False
    result.deleted += [Garbage(info.path, info.size, reason) for info in gone]
    if not _deletes_rows(catalog):
        _offer(catalog, result, [info for info in infos if holds_rows(info.path)], reason, floor)
    return True


def _offer(catalog: Catalog, result: Collection, infos: Sequence[ObjectInfo], reason: str, floor: float) -> None:
    """Put segments that nobody registered into the trash, unless their number stands for another file."""
    found = {segment[1]: (info, segment[0]) for info in infos if (segment := paths.parse_segment_path(info.path))}
    now = result.clock()
    with catalog.pool.unordered() as connection:
        version = connection.execute(sa.select(s.counter.c.version)).scalar_one()
        for column in (s.segments.c.number, s.trash.c.segment):
            taken = connection.execute(sa.select(column).where(column.in_(found))).scalars().all()
            found = {number: one for number, one in found.items() if number not in taken}
        garbage = [
            Garbage(info.path, info.size, reason, table_id, number, version, tombstoned_at=now)
            for number, (info, table_id) in found.items()
        ]
        result.trashed += garbage
        if not result.dry_run:
            throw_away(connection, garbage, now + int(floor * NANOS))


def _deletes_rows(catalog: Catalog) -> bool:
    return catalog.config.delete_bytes != "off"


def named(connection: sa.Connection, infos: Sequence[ObjectInfo], now: int = 0) -> set[str]:
    """The paths among `infos` that the catalog knows, that wait in the trash, or that are not a lake's to delete.

    With `now`, they include files that a writer may still register.
    """
    every = [info.path for info in infos]
    known = {path for path in every if (found := identify(path)) is None or found.kind not in SWEPT}
    known.update(ownership.in_trash(connection, every))
    known.update(ownership.in_use(connection, every))
    known.update(_staged(connection, every, now))
    return known


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
