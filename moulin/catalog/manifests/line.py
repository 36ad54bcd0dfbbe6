"""The line of a lake's manifests: the required manifests, and the last complete version.

`check`, mirrors, replicas and recovery share this rule. Versions are published in order (publish.py), all parts of one
before any part of the next, and a full manifest after every delta up to it. So a version that is missing or incomplete
before a later one is damage, and raises `Corrupt` with the missing name. Only the last version may be incomplete, if
its publisher stopped.

Manifests removed by clean-up are not damage: lake manifests before a full lake manifest, manifests of a table before a
full one that is not newer than its oldest kept version, and all manifests of a purged table.
"""

# Decisions: docs/decisions/0185

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from moulin.catalog.identity import first_of_life
from moulin.catalog.manifests.index import ManifestIndex
from moulin.catalog.manifests.lake_replay import LakeReplay
from moulin.errors import Corrupt
from moulin.formats import messages as pb
from moulin.storage import paths
from moulin.storage.store import Store

Expected = Callable[[int], set[str]]
"""A function that returns the table deltas of a version, for callers with a catalog."""


class Unsettled(Exception):
    """A gap that may result from concurrent publishing: list and check again."""


@dataclass(slots=True)
class Line:
    """The valid manifests: everything up to `version`, except those of lost incarnations.

    `incomplete` says why the next version is not included, if there is one; `ignored` lists ignored manifests.
    """

    lake: LakeReplay
    version: int
    incomplete: str | None
    gaps: list[pb.Incarnation]
    ignored: list[str] = field(default_factory=list)

    def counts(self, version: int) -> bool:
        lost = any(gap.continues_from < version < gap.first_version for gap in self.gaps)
        return version <= self.version and not lost


def read_line(
    store: Store, lake_uuid: UUID, *, writing: bool = True, to_version: int | None = None
) -> tuple[ManifestIndex, Line]:
    """List the manifests of a lake and find its line, up to `to_version` if given.

    Raises Corrupt with the name of a manifest that is damaged, or missing before a later version.
    """
    index = ManifestIndex(store, lake_uuid, writing=writing)
    try:
        return index, find_line(index, to_version=to_version)
    except Unsettled:
        again = ManifestIndex(store, lake_uuid, writing=writing)
        return again, find_line(again, sure=index.published_through, to_version=to_version)


def find_line(
    index: ManifestIndex,
    *,
    sure: int | None = None,
    to_version: int | None = None,
    expected: Expected = lambda version: set(),
) -> Line:
    """The line in `index`. All manifests of the versions up to `sure` existed before the listing.

    Without `sure` a gap raises Unsettled.
    """
    fulls = [version for version in index.lake["full"] if to_version is None or version <= to_version]
    base = fulls[-1] if fulls else 0
    lake = LakeReplay()
    if fulls:
        lake.begin(index.read(paths.lake_manifest(base, "full")))
    gaps = list(lake.state.incarnations)
    last, incomplete = walk(index, base, lake, sure=sure, to_version=to_version, expected=expected)
    line = Line(lake, last, incomplete, gaps)
    older = [version for version in index.lake["delta"] if version <= base and line.counts(version)]
    for manifest in index.read_in_order(paths.lake_manifest(version, "delta") for version in older):
        lake.note_version(manifest)
    line.ignored = [name for version, name in index.names() if not line.counts(version)]
    return line


def walk(
    index: ManifestIndex,
    base: int,
    lake: LakeReplay,
    *,
    sure: int | None = None,
    to_version: int | None = None,
    expected: Expected = lambda version: set(),
) -> tuple[int, str | None]:
    """The last complete version from `base` on, applied to `lake`, and why the next one is incomplete, if there is
    one.
    """
    parts = index.parts(base)
    through = index.published_through if sure is None else sure
    limit = max(max(parts, default=base), through)
    if to_version is not None:
        limit = min(limit, to_version)
    purges = _Purges(index, base, limit, lake)
    version = base
    while version < limit:
        version += 1
        found = {name: index.read(name, again=True) for name in parts.get(version, [])}
        missing = _missing(index, purges, version, found, expected(version), lake)
        if missing is not None:
            if version > through:
                return version - 1, f"Version {version} is incomplete: {missing} is missing."
            if sure is None:
                raise Unsettled
            raise lost(missing, version)
        for manifest in found.values():
            lake.extend(manifest)
    return version, None


def lost(name: str, version: int) -> Corrupt:
    """The error for a missing manifest with later ones present."""
    return Corrupt(
        f"{name} is missing, but later manifests exist: version {version} is damaged. Restore the manifest "
        "from a mirror or another copy. If the catalog is lost, too, `moulin recover --to-version N --discard-newer` "
        f"goes back to a version N below {version} and discards what came after it."
    )


class _Purges:
    """Tables that were purged after `base`: clean-up may have deleted their folders, including manifests."""

    def __init__(self, index: ManifestIndex, base: int, limit: int, lake: LakeReplay) -> None:
        tables = set(lake.entries)
        self._tables: set[bytes] = set()
        self._last = 0  # the last version that purged a table whose files are all deleted
        for version in index.lake["delta"]:
            if base < version <= limit:
                manifest = index.read(paths.lake_manifest(version, "delta"), again=True)
                tables.update(entry.id for entry in manifest.table_entries)
                gone = tables.intersection(manifest.purged)
                self._tables |= gone
                if any(not index.has_table(UUID(bytes=table)) for table in gone):
                    self._last = version

    def deltas(self, version: int) -> set[str]:
        """Manifests that a version may lack: clean-up deletes those of purged tables in any case."""
        return {paths.table_manifest(UUID(bytes=table), version, "delta") for table in self._tables}

    def may_hide(self, version: int) -> bool:
        """Whether a version without manifests may have changed only purged tables."""
        return version < self._last


def _missing(
    index: ManifestIndex,
    purges: _Purges,
    version: int,
    found: dict[str, pb.Manifest],
    expected: set[str],
    lake: LakeReplay,
) -> str | None:
    """The name of a missing manifest of a version; None if it is complete."""
    if not found:
        if expected:
            return min(expected)
        return None if purges.may_hide(version) else _lost_version(index, version, lake)
    needed = [_parts_of(manifest) for manifest in found.values()]
    if any(parts != needed[0] for parts in needed):
        raise Corrupt(
            f"{' and '.join(found)} do not belong together: two catalogs wrote version {version}. Keep the files of "
            f"the right catalog, and move the rest away."
        )
    return min((needed[0] - purges.deltas(version) | expected) - found.keys(), default=None)


def _parts_of(manifest: pb.Manifest) -> set[str]:
    """The names of all manifests of a version, according to one of them."""
    tables = (UUID(bytes=table) for table in manifest.tables)
    parts = {paths.table_manifest(table_id, manifest.version, "delta") for table_id in tables}
    return parts | ({paths.lake_manifest(manifest.version, "delta")} if manifest.lake else set())


def _lost_version(index: ManifestIndex, version: int, lake: LakeReplay) -> str:
    """What is missing of a version without manifests, as exactly as the surrounding versions tell."""
    later = sorted((number, name) for number, name in index.names() if number > version)
    if later:
        number, name = later[0]
        if index.read(name, again=True).incarnation > lake.incarnation:  # the first full manifest of its incarnation
            return paths.lake_manifest(first_of_life(number), "full")
    if version == 1 and not index.lake["full"] and 1 not in index.lake["delta"]:
        first = min((*index.lake["delta"][:1], *(number for number, _ in later)), default=1)
        full = paths.lake_manifest(first, "full")
        return f"{paths.lake_manifest(1, 'delta')}, or {full}, or a full manifest of the lake before that"
    for table_id, kinds in index.tables.items():
        if version in kinds["full"]:
            return paths.table_manifest(table_id, version, "delta")
        before = max((v for v in kinds["delta"] if v < version), default=None)
        after = min((v for v in kinds["delta"] if v > version), default=None)
        if before is not None and after is not None:
            earlier, follower = (index.read(paths.table_manifest(table_id, v, "delta")) for v in (before, after))
            if follower.previous_snapshot_id != earlier.snapshot_id:
                return paths.table_manifest(table_id, version, "delta")
    name = paths.lake_manifest(version, "delta")
    return f"{name}, or the last manifest of a table ({paths.tables_prefix()}/<id>/{name}),"


def broken_chain(index: ManifestIndex, line: Line, table_id: UUID, entry: pb.TableEntry) -> Corrupt | None:
    """The problem in the manifests of a table; None if they lead from its oldest kept version to its last."""
    kinds = {kind: [v for v in versions if line.counts(v)] for kind, versions in index.tables[table_id].items()}
    deltas, created = kinds["delta"], paths.table_manifest(table_id, entry.created_version, "delta")
    oldest = max(entry.created_version, entry.oldest_version)
    start = max((version for version in kinds["full"] if version <= oldest), default=None)
    snapshot: int | None = None
    head = 0
    if start is not None:
        head, snapshot = start, index.read(paths.table_manifest(table_id, start, "full"), again=True).snapshot_id
    elif not deltas:
        return lost(created, entry.created_version)
    for version in (v for v in deltas if start is None or v > start):
        manifest = index.read(paths.table_manifest(table_id, version, "delta"), again=True)
        previous = manifest.previous_snapshot_id if manifest.HasField("previous_snapshot_id") else None
        if previous != snapshot and not head:
            trimmed = f", or {paths.table_manifest(table_id, version, 'full')}," if oldest > version else ""
            return lost(created + trimmed, entry.created_version)
        if previous != snapshot:
            between = _lost_between(index, table_id, head, version)
            return lost(between, head)
        head, snapshot = version, manifest.snapshot_id
    if head < entry.head_version:
        return lost(paths.table_manifest(table_id, entry.head_version, "delta"), entry.head_version)
    return None


def _lost_between(index: ManifestIndex, table_id: UUID, before: int, after: int) -> str:
    """The missing delta of a table between two others: of a version that no other manifest excludes."""
    parts = index.parts(before)
    candidates = []
    for version in range(before + 1, min(after, before + 100_000)):
        members = [set(index.read(name).tables) for name in parts.get(version, [])[:1]]
        if members and table_id.bytes in members[0]:
            return paths.table_manifest(table_id, version, "delta")
        if not members:
            candidates.append(version)
    if not candidates:
        return f"A manifest of table {table_id} between versions {before} and {after}"
    name = paths.table_manifest(table_id, candidates[0], "delta")
    return name if len(candidates) == 1 else f"{name}, or one of a version up to {candidates[-1]},"


def broken_chains(index: ManifestIndex, line: Line) -> Iterator[Corrupt]:
    """Tables whose manifests do not lead from their oldest kept version to their last."""
    for table_id, entry in line.lake.tables():
        if (broken := broken_chain(index, line, table_id, entry)) is not None:
            yield broken
