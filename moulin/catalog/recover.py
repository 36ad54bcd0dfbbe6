"""Recovery: a lost catalog rebuilt from the manifests in storage alone.

The lake comes back as it was at the last complete version: the last one whose manifests, and those of every version
before it, are all there. A new incarnation goes on from it. Its counters start far beyond everything that was ever
handed out, so that nothing which a process of the old incarnation still writes can be taken for its own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from moulin._proto.moulin.format.v1 import manifest_pb2 as pb
from moulin.catalog import schema as s
from moulin.catalog.engine import Clock, Engine, chunks, engine_url
from moulin.catalog.full_manifests import lake_manifest
from moulin.catalog.identity import RESERVES, beyond, lock_lake, read_marker
from moulin.catalog.lake_replay import LakeReplay
from moulin.catalog.manifest_index import ManifestIndex, Versions
from moulin.catalog.replay import TableReplay
from moulin.config import Config
from moulin.errors import AlreadyExists, Corrupt, FailedPrecondition, NotFound
from moulin.formats import manifest as codec
from moulin.storage import paths
from moulin.storage.store import Store

RECOVER = "recover"  # the kind of the version that a new incarnation starts with
_SECOND = 1_000_000_000

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What came back. `version` is the last complete version; the new incarnation starts with `first_version`.

    `incomplete` says why versions after it do not count, if there are any; `ignored` names manifests that do not count.
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


@dataclass(slots=True)
class Highest:
    """The highest numbers seen anywhere; the new incarnation hands out higher ones."""

    segment: int = 0
    vector: int = 0
    timestamp_ns: int = 0


@dataclass(slots=True)
class Plan:
    """What will be replayed: everything up to `version`, less the manifests of lost incarnations."""

    lake: LakeReplay
    version: int
    incomplete: str | None
    gaps: list[pb.Incarnation]
    ignored: list[str] = field(default_factory=list)

    def counts(self, version: int) -> bool:
        lost = any(gap.continues_from < version < gap.first_version for gap in self.gaps)
        return version <= self.version and not lost


def recover(
    store: Store, uri: str, config: Config, clock: Clock | None = None, progress: Progress | None = None
) -> Recovery:
    """Rebuild the catalog at `uri`, which must be empty, from the manifests in `store`.

    Corrupt names a manifest that is damaged or missing and without which something would be lost.
    """
    marker = read_marker(store)
    if marker is None:
        raise NotFound(f"{store.uri} holds no lake: there is no {paths.marker()}.")
    lake_uuid = UUID(str(marker["uuid"]))
    engine = Engine(engine_url(uri), config, clock)
    try:
        engine.migrate()
        with engine.unordered() as connection:
            lock_lake(engine, connection)
            if not engine.is_sqlite:  # reading from storage may take longer than a transaction may idle
                connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            if connection.execute(sa.select(s.lake)).first() is not None:
                raise FailedPrecondition(
                    "This catalog holds a lake already; recovery needs an empty one. Move the old one away first."
                )
            return _recover(engine, connection, store, lake_uuid, progress or (lambda done, total: None))
    finally:
        engine.close()


def _recover(engine: Engine, connection: sa.Connection, store: Store, lake_uuid: UUID, progress: Progress) -> Recovery:
    index = ManifestIndex(store, lake_uuid)
    plan, highest, segments = fill(engine, connection, index, progress)
    first_version, incarnation = _start_incarnation(engine, connection, store, lake_uuid, index, plan, highest)
    return Recovery(
        version=plan.version,
        first_version=first_version,
        incarnation=incarnation,
        databases=len(plan.lake.databases),
        tables=len(plan.lake.entries),
        views=len(plan.lake.views),
        segments=segments,
        incomplete=plan.incomplete,
        ignored=tuple(plan.ignored),
    )


def fill(
    engine: Engine, connection: sa.Connection, index: ManifestIndex, progress: Progress
) -> tuple[Plan, Highest, int]:
    """Replay everything up to the last complete version into an empty catalog.

    Returns what was replayed, the highest numbers, and how many segments there are.
    """
    plan = _plan(index)
    highest = Highest(segment=index.highest_segment)
    plan.lake.insert_databases(connection)
    segments = 0
    for done, (table_id, entry) in enumerate(plan.lake.tables()):
        progress(done, len(plan.lake.entries))
        plan.lake.insert_table(connection, entry)
        replay = TableReplay(connection, table_id)
        versions = _replay_table(index, plan, table_id, replay)
        replay.finish(entry, _deltas_since_full(index.tables[table_id], plan))
        insert_versions(engine, connection, versions)
        segments += replay.segments
        highest.segment = max(highest.segment, replay.highest_segment)
        highest.vector = max(highest.vector, replay.highest_vector)
    progress(len(plan.lake.entries), len(plan.lake.entries))
    plan.lake.insert_views(connection)
    plan.lake.insert_ingest(connection)
    insert_versions(engine, connection, plan.lake.versions)
    newest = connection.execute(sa.select(sa.func.max(s.versions.c.timestamp_ns))).scalar_one()
    highest.timestamp_ns = max(int(newest or 0), plan.lake.state.clock_ns)
    return plan, highest, segments


def _plan(index: ManifestIndex) -> Plan:
    """Read what the lake as a whole is made of, and find the last complete version."""
    base = index.lake["full"][-1] if index.lake["full"] else 0
    lake = LakeReplay()
    if index.lake["full"]:
        lake.begin(index.read(paths.lake_manifest(base, "full")))
    gaps = list(lake.state.incarnations)
    last, incomplete = _complete_through(index, base, lake)
    plan = Plan(lake, last, incomplete, gaps)
    older = [version for version in index.lake["delta"] if version <= base and plan.counts(version)]
    for manifest in index.read_in_order(paths.lake_manifest(version, "delta") for version in older):
        lake.note_version(manifest)
    plan.ignored = [
        name
        for table_id, versions in ((None, index.lake), *index.tables.items())
        for kind in versions
        for version in versions[kind]
        if not plan.counts(version)
        for name in [
            paths.lake_manifest(version, kind) if table_id is None else paths.table_manifest(table_id, version, kind)
        ]
    ]
    return plan


def _complete_through(index: ManifestIndex, base: int, lake: LakeReplay) -> tuple[int, str | None]:
    """The last complete version from `base` on, applied to `lake`, and why the one after it is not, if there is one."""
    parts: dict[int, list[str]] = {}
    for version in index.lake["delta"]:
        parts.setdefault(version, []).append(paths.lake_manifest(version, "delta"))
    for table_id, versions in index.tables.items():
        for version in versions["delta"]:
            parts.setdefault(version, []).append(paths.table_manifest(table_id, version, "delta"))
    newest, (purged, last_purge) = max(parts, default=0), _purged(index, base)
    version = base
    while version < newest:
        version += 1
        found = {}
        try:
            for name in parts.get(version, []):
                found[name] = index.read(name, again=True)
        except Corrupt as error:
            if version < newest:
                raise
            return version - 1, error.message
        if not found and version < last_purge:  # all of it went with the folders of tables that were purged since
            continue
        needed = _needed(next(iter(found.values()), None), index, purged)
        if missing := [f"any manifest of version {version}"] if not found else sorted(needed - found.keys()):
            return version - 1, f"Version {version} is incomplete: {missing[0]} is missing."
        for manifest in found.values():
            lake.extend(manifest)
    return version, None


def _purged(index: ManifestIndex, base: int) -> tuple[set[bytes], int]:
    """Tables purged after `base`, and when last: clean-up may have deleted their folders since, manifests and all."""
    purged: set[bytes] = set()
    last = 0
    for version in index.lake["delta"]:
        if version > base:
            with suppress(Corrupt):  # whether it matters is decided when its version is looked at
                if gone := index.read(paths.lake_manifest(version, "delta"), again=True).purged:
                    purged.update(gone)
                    last = version
    return purged, last


def _needed(manifest: pb.Manifest | None, index: ManifestIndex, purged: set[bytes]) -> set[str]:
    """The names of all manifests of a version, according to one of them, that clean-up cannot have removed."""
    if manifest is None:
        return set()
    needed = {paths.lake_manifest(manifest.version, "delta")} if manifest.lake else set()
    for table_id in (UUID(bytes=data) for data in manifest.tables if data not in purged):
        full = index.tables[table_id]["full"] if table_id in index.tables else []
        if not full or full[0] < manifest.version:
            needed.add(paths.table_manifest(table_id, manifest.version, "delta"))
    return needed


def _replay_table(index: ManifestIndex, plan: Plan, table_id: UUID, replay: TableReplay) -> dict[int, tuple[int, str]]:
    """Replay the longest chain of a table's manifests that leads to its last version; returns the versions on it.

    That is all deltas, unless clean-up removed the first ones. It may have been stopped anywhere in between, so a chain
    with a gap is given up for one that starts with the next full manifest.
    """
    kept = {
        kind: [version for version in versions if plan.counts(version)]
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


def _deltas_since_full(versions: Versions, plan: Plan) -> int:
    """How long the chain is that the next full manifest will shorten."""
    full = [version for version in versions["full"] if plan.counts(version)]
    deltas = [version for version in versions["delta"] if plan.counts(version)]
    return sum(version > full[-1] for version in deltas) if full else max(len(deltas) - 1, 0)


def insert_versions(engine: Engine, connection: sa.Connection, versions: dict[int, tuple[int, str]]) -> None:
    insert = sqlite.insert if engine.is_sqlite else postgresql.insert
    for chunk in chunks(sorted(versions)):
        rows = [{"version": v, "timestamp_ns": versions[v][0], "kind": versions[v][1]} for v in chunk]
        connection.execute(insert(s.versions).values(rows).on_conflict_do_nothing())


def _start_incarnation(
    engine: Engine,
    connection: sa.Connection,
    store: Store,
    lake_uuid: UUID,
    index: ManifestIndex,
    plan: Plan,
    highest: Highest,
) -> tuple[int, int]:
    """The rows of a new life of the catalog, and its first manifest, which decides between two that recover at once."""
    state = plan.lake.state
    now = max(engine.now(connection), highest.timestamp_ns + _SECOND)
    created_at = state.created_at or min((stamp for stamp, _ in plan.lake.versions.values()), default=now)
    version, number = beyond(index.highest_version), plan.lake.incarnation + 1
    values = {"uuid": lake_uuid, "format": s.FORMAT, "storage": store.uri, "created_at": created_at}
    connection.execute(s.lake.insert().values(id=1, incarnation=number, **values))
    lives = list(state.incarnations) or [pb.Incarnation(number=1, started_at=created_at)]
    lives.append(pb.Incarnation(number=number, continues_from=plan.version, first_version=version, started_at=now))
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
    manifest = codec.encode(lake_manifest(connection, lake_uuid), full=True)
    try:
        store.put_if_absent(paths.lake_manifest(version, "full"), manifest)
    except AlreadyExists:
        raise FailedPrecondition("The lake is being recovered elsewhere at the same time; that one won.") from None
    return version, number
