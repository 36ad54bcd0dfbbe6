"""Recovery: rebuilds a lost catalog from the manifests in storage.

The lake is restored at the last complete version: the last one whose manifests, and those of every version before it,
all exist (line.py). A gap before a later version stops it, unless the caller gives the version to recover and discards
later ones. A new incarnation continues from there. Its counters start far beyond all allocated numbers, so that later
writes of the old incarnation cannot be confused with its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.commit import regions
from moulin.catalog.identity import RESERVES, beyond, lock_lake, read_marker
from moulin.catalog.manifests.full import lake_manifest
from moulin.catalog.manifests.index import ManifestIndex, Versions
from moulin.catalog.manifests.line import Line, broken_chain, read_line
from moulin.catalog.manifests.replay import TableReplay
from moulin.catalog.objects import tables
from moulin.catalog.old_versions import delete_versions, past_versions
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import Clock
from moulin.catalog.sql.drivers import database_url, upsert
from moulin.catalog.sql.pool import Pool, chunks
from moulin.config import Config
from moulin.errors import AlreadyExists, Corrupt, FailedPrecondition, InvalidInput, NotFound
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.formats.erasure import Scrubber
from moulin.model.entities import Region, TableState
from moulin.model.region_spec import retired_up_to
from moulin.storage import paths
from moulin.storage.store import Store

RECOVER = "recover"  # the kind of the first version of a new incarnation
_SECOND = 1_000_000_000

Progress = Callable[[int, int], None]
FindRegions = Callable[[TableState], Iterable[Region]]


@dataclass(frozen=True, slots=True)
class Recovery:
    """The result. `version` is the last complete version; the new incarnation starts with `first_version`.

    `incomplete` says why the next version was not recovered, if there is one; `ignored` lists ignored manifests, and
    `set_aside` the copies of discarded ones.
    """

    version: int
    first_version: int
    incarnation: int
    databases: int
    tables: int
    views: int
    segments: int
    incomplete: str | None
    ignored: tuple[str, ...]
    set_aside: tuple[str, ...]


@dataclass(slots=True)
class Highest:
    """The highest numbers found; the new incarnation allocates higher ones."""

    segment: int = 0
    vector: int = 0
    timestamp_ns: int = 0


def recover(
    store: Store,
    uri: str,
    config: Config,
    clock: Clock | None = None,
    progress: Progress | None = None,
    *,
    to_version: int | None = None,
    discard_newer: bool = False,
    find_regions: FindRegions | None = None,
) -> Recovery:
    """Rebuild the catalog at `uri`, which must be empty, from the manifests in `store`.

    Raises Corrupt with the name of a damaged or missing manifest. `to_version` with `discard_newer` discards all later
    versions; copies of their manifests are set aside (`paths.discarded_manifest`). `find_regions` finds the regions of
    a keyed table by its accessible logs, so that their rows are recovered even if nothing of a region was ever flushed.
    """
    marker = read_marker(store)
    if marker is None:
        raise NotFound(f"{store.uri} contains no lake: {paths.marker()} does not exist.")
    if discard_newer and to_version is None:
        raise InvalidInput("discard_newer needs to_version, the last version to keep.")
    lake_uuid = UUID(str(marker["uuid"]))
    pool = Pool(database_url(uri), config, clock)
    try:
        pool.migrate()
        with pool.unordered() as connection:
            lock_lake(pool, connection)
            if not pool.is_sqlite:  # reading from storage may exceed the idle timeout of a transaction
                connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            if connection.execute(sa.select(s.lake)).first() is not None:
                raise FailedPrecondition(
                    "This catalog already contains a lake; recovery needs an empty one. Move the old one away first."
                )
            index, line = read_line(store, lake_uuid, to_version=to_version)
            _require_line(store, index, line, to_version, discard_newer)
            done = progress or (lambda done, total: None)
            found = _recover(pool, connection, store, index, line, done, discard_newer)
            _settle_regions(connection, find_regions)
            return found
    finally:
        pool.close()


def _settle_regions(connection: sa.Connection, find_regions: FindRegions | None) -> None:
    """Add the regions of found logs, also for dropped tables, which may be resurrected."""
    for table_id in connection.execute(sa.select(s.tables.c.id)).scalars().all():
        state = tables.load(connection, tables.find_by_id(connection, table_id, dropped_after=-1))
        if state.schema.identifier_field_ids:
            regions.release_retired(connection, state.id, retired_up_to(state.properties))
            if find_regions is not None:
                regions.adopt(connection, state.id, find_regions(state))


def _require_line(store: Store, index: ManifestIndex, line: Line, to_version: int | None, discard_newer: bool) -> None:
    """Reject a recovery that would lose more than the caller has agreed to."""
    if index.highest_segment and not index.highest_version:
        raise Corrupt(f"{store.uri} has segments but no manifests: restore {paths.lake_manifests_prefix()}/.")
    if to_version is None:
        return
    if line.version != to_version or not line.counts(to_version):
        raise InvalidInput(
            f"Version {to_version} cannot be recovered; the last complete version up to it is {line.version}."
        )
    if index.highest_version > to_version and not discard_newer:
        raise FailedPrecondition(
            f"There are manifests up to version {index.highest_version}. Everything after version {to_version} would "
            f"be discarded: add --discard-newer (discard_newer=True) if that is intended."
        )


def _recover(
    pool: Pool,
    connection: sa.Connection,
    store: Store,
    index: ManifestIndex,
    line: Line,
    progress: Progress,
    discard_newer: bool,
) -> Recovery:
    highest, segments = fill(pool, connection, index, line, progress)
    number = max(line.lake.incarnation, index.newest_incarnation(line.version)) + 1
    kept_aside = _set_aside(store, index, line.version, number) if discard_newer else ()
    first_version = _start_incarnation(pool, connection, store, number, index, line, highest)
    return Recovery(
        version=line.version,
        first_version=first_version,
        incarnation=number,
        databases=len(line.lake.databases),
        tables=len(line.lake.entries),
        views=len(line.lake.views),
        segments=segments,
        incomplete=line.incomplete,
        ignored=tuple(line.ignored),
        set_aside=kept_aside,
    )


def _set_aside(store: Store, index: ManifestIndex, version: int, incarnation: int) -> tuple[str, ...]:
    """Copy the manifests after `version` to the set-aside folder of the new incarnation.

    Clean-up later deletes the originals, as for every lost incarnation, but never the copies.
    """
    copies = []
    for number, name in sorted(index.names()):
        if number > version:
            copy = paths.discarded_manifest(incarnation, name)
            store.put(copy, store.get(name))
            copies.append(copy)
    return tuple(copies)


def fill(
    pool: Pool, connection: sa.Connection, index: ManifestIndex, line: Line, progress: Progress
) -> tuple[Highest, int]:
    """Replay a line into an empty catalog. Returns the highest numbers, and how many segments there are."""
    highest = Highest(segment=index.highest_segment)
    erasures = sorted(line.lake.erasures.values(), key=lambda erasure: erasure.version)
    index.scrubbers = [Scrubber(erasure) for erasure in erasures]
    line.lake.insert_databases(connection)
    segments = 0
    for done, (table_id, entry) in enumerate(line.lake.tables()):
        progress(done, len(line.lake.entries))
        line.lake.insert_table(connection, entry)
        replay = TableReplay(connection, table_id)
        try:
            versions = _replay_table(index, line, table_id, replay)
            replay.finish(entry, _deltas_since_full(index.tables[table_id], line))
        except Corrupt as error:
            raise broken_chain(index, line, table_id, entry) or error from None
        insert_versions(pool, connection, versions)
        segments += replay.segments
        highest.segment = max(highest.segment, replay.highest_segment)
        highest.vector = max(highest.vector, replay.highest_vector)
    progress(len(line.lake.entries), len(line.lake.entries))
    line.lake.insert_views(connection)
    line.lake.insert_ingest(connection)
    line.lake.insert_erasures(connection)
    insert_versions(pool, connection, line.lake.versions)
    t = s.tables
    if connection.execute(sa.select(t.c.id).where(t.c.oldest_version > t.c.created_version).limit(1)).first():
        delete_versions(connection, past_versions(connection))  # clean-up was here
    newest = connection.execute(sa.select(sa.func.max(s.versions.c.timestamp_ns))).scalar_one()
    highest.timestamp_ns = max(int(newest or 0), line.lake.state.clock_ns)
    return highest, segments


def _replay_table(index: ManifestIndex, line: Line, table_id: UUID, replay: TableReplay) -> dict[int, tuple[int, str]]:
    """Replay the longest chain of a table's manifests to its last version; returns its versions.

    These are all deltas, unless clean-up removed the first ones. Clean-up may have stopped at any point, so a chain
    with a gap is replaced by one that starts with the next full manifest.
    """
    kept = {
        kind: [version for version in versions if line.counts(version)]
        for kind, versions in index.tables[table_id].items()
    }
    starts: list[int | None] = [None, *kept["full"]]
    for start in starts:
        versions: dict[int, tuple[int, str]] = {}
        if start is not None:
            full = index.read(paths.table_manifest(table_id, start, "full"))
            replay.begin(full)
            versions[full.version] = (full.timestamp_ns, full.kind)
        deltas = [paths.table_manifest(table_id, v, "delta") for v in kept["delta"] if start is None or v > start]
        for manifest in index.read_in_order(deltas):
            if not replay.extend(manifest):
                break
            versions[manifest.version] = (manifest.timestamp_ns, manifest.kind)
        else:
            return versions
    raise replay.damaged("a manifest of it is missing")


def _deltas_since_full(versions: Versions, line: Line) -> int:
    """The length of the chain before the next full manifest."""
    full = [version for version in versions["full"] if line.counts(version)]
    deltas = [version for version in versions["delta"] if line.counts(version)]
    return sum(version > full[-1] for version in deltas) if full else max(len(deltas) - 1, 0)


def insert_versions(pool: Pool, connection: sa.Connection, versions: dict[int, tuple[int, str]]) -> None:
    for chunk in chunks(sorted(versions)):
        rows = [{"version": v, "timestamp_ns": versions[v][0], "kind": versions[v][1]} for v in chunk]
        connection.execute(upsert(connection, s.versions).values(rows).on_conflict_do_nothing())


def _start_incarnation(
    pool: Pool,
    connection: sa.Connection,
    store: Store,
    number: int,
    index: ManifestIndex,
    line: Line,
    highest: Highest,
) -> int:
    """Insert the rows of a new incarnation, and its first manifest, which decides between concurrent recoveries."""
    state = line.lake.state
    now = max(pool.now(connection), highest.timestamp_ns + _SECOND)
    created_at = state.created_at or min((stamp for stamp, _ in line.lake.versions.values()), default=now)
    version = beyond(index.highest_version)
    values = {"uuid": index.lake_uuid, "format": s.FORMAT, "storage": store.uri, "created_at": created_at}
    connection.execute(s.lake.insert().values(id=1, incarnation=number, **values))
    lives = list(state.incarnations) or [pb.Incarnation(number=1, started_at=created_at)]
    lives.append(pb.Incarnation(number=number, continues_from=line.version, first_version=version, started_at=now))
    columns = [column.name for column in s.incarnations.columns]
    connection.execute(s.incarnations.insert(), [{name: getattr(life, name) for name in columns} for life in lives])
    connection.execute(s.versions.insert().values(version=version, timestamp_ns=now, kind=RECOVER))
    connection.execute(
        s.counter.insert().values(
            id=1,
            version=version,
            response_seq=beyond(state.response_seq),
            clock_ns=now,
            deltas=0,
            routing_seq=version,
        )
    )
    seen = {"segment": highest.segment, "vector": highest.vector}
    connection.execute(
        s.reserves.insert(),
        [{"name": name, "next": beyond(max(seen[name], state.reserves.get(name, 0)))} for name in RESERVES],
    )
    manifest = codec.encode(lake_manifest(connection, index.lake_uuid), full=True)
    try:
        store.put_if_absent(paths.lake_manifest(version, "full"), manifest)
    except AlreadyExists:
        raise FailedPrecondition(
            "The lake was recovered by another process at the same time: use that catalog."
        ) from None
    return version
