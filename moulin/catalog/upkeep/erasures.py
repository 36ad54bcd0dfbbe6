"""Erasures, from the first row to the last byte: begun, committed, finished.

A row says that an erase began, before anything is written. The commit replaces what the catalog knows (commit/erase.py)
and puts the files that hold erased rows into the trash, to be deleted at once. What follows needs nothing that only
this process knows: manifests are written again, files are deleted, the catalog's own file is rewritten. Whoever comes
next, the same erase again or clean-up, goes on where a killed one stopped.
"""

# Decisions: docs/decisions/0440, docs/decisions/0441, docs/decisions/0442

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.commit import erase
from moulin.catalog.commit.erase import PreparedErase
from moulin.catalog.expiry import Garbage, throw_away
from moulin.catalog.manifests.scrub import scrub_storage
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.draft import Draft
from moulin.catalog.sql.pool import Pool, chunks
from moulin.catalog.upkeep import ownership, sweep
from moulin.catalog.upkeep.erasure import erase as delete_bytes
from moulin.catalog.upkeep.erasure import holds_values
from moulin.errors import Unavailable
from moulin.formats import messages as pb
from moulin.model.ids import new_id
from moulin.storage import paths
from moulin.storage.store import ObjectInfo

log = logging.getLogger("moulin.catalog")
Report = dict[str, Any]
Step = Callable[[str], None]
ERASED = "erased"  # the reason of its files in the trash
_BUSY = 5000  # milliseconds to wait for readers of the catalog's file


def begin(catalog: Catalog, table_id: UUID, outline: str) -> UUID:
    """Record that an erase started. Its condition is not stored, because it contains the values to erase."""
    erasure_id = new_id()
    with catalog.pool.unordered() as connection:
        row = {"id": erasure_id, "table_id": table_id, "outline": outline, "started_at": catalog.pool.now(connection)}
        connection.execute(s.erasures.insert().values(row))
    return erasure_id


def give_up(catalog: Catalog, erasure_id: UUID) -> None:
    """Delete the record of an erase that did not commit: nothing was changed."""
    e = s.erasures
    with catalog.pool.unordered() as connection:
        connection.execute(e.delete().where(e.c.id == erasure_id, e.c.version.is_(None)))


def commit(catalog: Catalog, prepared: PreparedErase, report: Report) -> int:
    """Erase, as one version. Raises Moved if there are new segments to search."""
    e, t = s.erasures, s.trash
    with catalog.pool.write() as write:
        draft = Draft(write, catalog.uuid, "erase")
        done = erase.apply(draft, prepared)
        draft.save()
        garbage = [Garbage(path, size, ERASED) for path, size in done.files.items()]
        connection = draft.connection
        for block in chunks(sorted(done.files)):
            connection.execute(t.delete().where(t.c.path.in_(block)))
        throw_away(connection, garbage, 0)
        floor = draft.now + int(catalog.config.byte_floor * NANOS)
        throw_away(connection, [Garbage(path, 0, ERASED) for path in done.without_rows], floor)
        _forget_attempts(connection, prepared)
        mine = connection.execute(sa.select(e.c.table_id, e.c.started_at).where(e.c.id == prepared.id)).first()
        connection.execute(e.delete().where(e.c.id == prepared.id))
        connection.execute(
            e.insert().values(
                id=prepared.id,
                table_id=prepared.table_id,
                outline=prepared.outline,
                started_at=draft.now if mine is None else mine.started_at,  # the same erase, elsewhere, removed it
                version=draft.version,
                data=done.erasure.SerializeToString(deterministic=True),
                report={**report, "version": draft.version, "erased_at": draft.now},
            )
        )
    catalog.publisher.publish_quietly()
    return draft.version


def _forget_attempts(connection: sa.Connection, prepared: PreparedErase) -> None:
    """Earlier attempts of the same erase that never committed are done with."""
    e = s.erasures
    same = sa.and_(e.c.outline == prepared.outline, e.c.table_id.in_(prepared.family), e.c.version.is_(None))
    connection.execute(e.delete().where(same, e.c.id != prepared.id))


def begun(catalog: Catalog) -> list[Any]:
    """Unfinished erasures: those without a version did not commit, and must be run again."""
    e = s.erasures
    with catalog.pool.read() as connection:
        return list(connection.execute(sa.select(e).where(e.c.finished_at.is_(None)).order_by(e.c.started_at)))


def finish_all(catalog: Catalog) -> list[Report]:
    """Finish erases of other processes that were killed after their commit."""
    return [finish(catalog, row.id) for row in begun(catalog) if row.version is not None]


def finish(catalog: Catalog, erasure_id: UUID, step: Step = lambda name: None) -> Report:
    """Finish a committed erase; returns its report. Idempotent."""
    e = s.erasures
    with catalog.pool.read() as connection:
        row = connection.execute(sa.select(e).where(e.c.id == erasure_id)).one()
    erasure = pb.Erasure.FromString(row.data)
    report: Report = dict(row.report)
    step("publish")
    _publish(catalog, erasure.version)
    step("manifests")
    written = {one["path"]: one for one in report.get("manifests", [])}
    for one in scrub_storage(catalog.pool, catalog.store, erasure):
        written[one.path] = {"path": one.path, "sha256": one.sha256}
    report["manifests"] = [written[path] for path in sorted(written)]
    _note(catalog, erasure_id, report)
    step("files")
    gone = {*report.get("deleted", []), *erasure.deleted}
    gone.update(_empty_trash(catalog, erasure))
    step("orphans")
    orphans, in_flight = _sweep(catalog, erasure)
    report["deleted"] = sorted(gone.union(orphans))
    report["in_flight"] = in_flight
    _note(catalog, erasure_id, report)
    step("vacuum")
    report["catalog"] = _vacuum(catalog.pool)
    step("done")
    _note(catalog, erasure_id, report, finished=report["catalog"] != BUSY)
    return report


def _note(catalog: Catalog, erasure_id: UUID, report: Report, *, finished: bool = False) -> None:
    e = s.erasures
    with catalog.pool.unordered() as connection:
        values: dict[str, Any] = {"report": report}
        if finished:
            values["finished_at"] = catalog.pool.now(connection)
        connection.execute(e.update().where(e.c.id == erasure_id).values(values))


def _publish(catalog: Catalog, version: int) -> None:
    """Every manifest up to a version must have its name in storage: then nobody puts an older one there any more."""
    catalog.publisher.publish()
    if catalog.publisher.published_version() < version:
        raise Unavailable("The manifests of the erase are not in storage yet: run it again to finish it.")


def _empty_trash(catalog: Catalog, erasure: pb.Erasure) -> list[str]:
    """Delete objects in the trash of these tables that may contain values, without the usual delay."""
    t = s.trash
    folders = tuple(f"{paths.table_prefix(UUID(bytes=one))}/" for one in erasure.tables)
    with catalog.pool.read() as connection:
        waiting = {*connection.execute(sa.select(t.c.path)).scalars()}
        mine = [path for path in waiting if path.startswith(folders) and path not in folders]
        mine += waiting.intersection(erasure.deleted)
        left = [path for path in erasure.deleted if path not in waiting and catalog.store.exists(path)]
        mine = sorted(path for path in {*mine, *left} if holds_values(path))
        used = ownership.in_use(connection, mine)
        mine = [path for path in mine if path not in used]
    _delete(catalog, mine)
    return mine


def _delete(catalog: Catalog, every: Sequence[str]) -> None:
    delete_bytes(catalog.store, every, rows=True)
    t = s.trash
    with catalog.pool.unordered() as connection:
        for block in chunks(every):
            connection.execute(t.delete().where(t.c.path.in_(block)))


def _sweep(catalog: Catalog, erasure: pb.Erasure) -> tuple[list[str], list[str]]:
    """Delete files that no row names, such as those of compactions that the erase has ended.

    Returns what is gone, and what a living process may still commit. For other machines it is unknown which processes
    run: there files younger than `orphan_grace` are in flight.
    """
    gone: list[str] = []
    in_flight: list[str] = []
    for table_id in (UUID(bytes=one) for one in erasure.tables):
        infos = list(catalog.store.list(paths.table_prefix(table_id)))
        in_use = catalog.pool.in_use()
        with catalog.pool.read() as connection:
            now = catalog.pool.now(connection)
            known = sweep.named(connection, infos, now)
        loose = [info for info in infos if info.path not in known and holds_values(info.path)]
        loose = [info for info in loose if not paths.is_temporary(info.path) or paths.segment_number(info.path)]
        before = datetime.fromtimestamp(now / NANOS, UTC) - timedelta(seconds=catalog.config.orphan_grace)
        knows_all = catalog.pool.is_sqlite
        free = [
            info for info in loose if (not in_use.may_be_committed(info.path) if knows_all else info.modified < before)
        ]
        gone += _swept(catalog, free)
        in_flight += sorted({info.path for info in loose} - {info.path for info in free})
    if all(row.version is not None for row in begun(catalog)):
        in_flight = _without_erasures(catalog, in_flight)
    return gone, in_flight


def _without_erasures(catalog: Catalog, every: Sequence[str]) -> list[str]:
    """Without files of an erase that died: their segments have other files, and they hold nothing that was erased."""
    numbers = {path: paths.segment_number(path) or 0 for path in every}
    g, known = s.segments, set[int]()
    with catalog.pool.read() as connection:
        for block in chunks(list(numbers.values())):
            known.update(connection.execute(sa.select(g.c.number).where(g.c.number.in_(block))).scalars())
    return [path for path, number in numbers.items() if number not in known]


def _swept(catalog: Catalog, infos: Iterable[ObjectInfo]) -> list[str]:
    names = [info.path for info in infos]
    delete_bytes(catalog.store, names, rows=True)
    return names


BUSY = "busy: others are reading the catalog's file; run the erase again, or `moulin gc`"
CLEAN = "rewritten (VACUUM) and its log emptied"
POSTGRESQL = (
    "PostgreSQL keeps old row versions: run VACUUM FULL on the catalog's tables; its write-ahead log, replicas and "
    "backups keep them as long as they are kept"
)


def _vacuum(pool: Pool) -> str:
    """Rewrite the catalog's file, so that no page contains erased values; returns the outcome."""
    if not pool.is_sqlite:
        return POSTGRESQL
    return CLEAN if pool.rewrite(_BUSY) else BUSY


__all__ = ["begin", "begun", "commit", "finish", "finish_all", "give_up"]
