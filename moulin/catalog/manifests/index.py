"""The manifests in a storage root: found by name, and checked against the name when read."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from uuid import UUID

from moulin.errors import Corrupt, Unsupported
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.formats.erasure import Scrubber, scrub_all
from moulin.storage import paths
from moulin.storage.store import ObjectInfo, Store

_AHEAD = 32  # manifests to prefetch
_CACHE_BYTES = 256 << 20

Versions = dict[paths.ManifestKind, list[int]]


def _versions() -> Versions:
    return {"delta": [], "full": []}


def _sort(kinds: Versions) -> None:
    for versions in kinds.values():
        versions.sort()


def _name(table_id: UUID | None, version: int, kind: paths.ManifestKind) -> str:
    if table_id is None:
        return paths.lake_manifest(version, kind)
    return paths.table_manifest(table_id, version, kind)


class ManifestIndex:
    """Manifests of a lake by version: all, or those `after` a version, found by `add_lake` and `add_tables`.

    `writing` means that the caller will write: manifests with unknown writer features are then rejected.
    `highest_segment` is the highest number in the name of any segment file.
    """

    def __init__(self, store: Store, lake_uuid: UUID, *, after: int | None = None, writing: bool = True) -> None:
        self._store, self.lake_uuid, self._writing = store, lake_uuid, writing
        self._cache: dict[str, bytes] = {}
        self._room = _CACHE_BYTES
        self.lake = _versions()
        self.tables: dict[UUID, Versions] = defaultdict(_versions)
        self.highest_segment = 0
        # Erasures whose manifests may not be rewritten yet: they are applied when reading.
        self.scrubbers: list[Scrubber] = []
        if after is None:
            self._add_everything()

    def _add_everything(self) -> None:
        self.add_lake()
        for item in self._store.list(paths.tables_prefix()):
            if (manifest := paths.parse_table_manifest(item.path)) is not None:
                self.tables[manifest[0]][manifest[2]].append(manifest[1])
            elif (segment := paths.parse_segment_path(item.path)) is not None:
                self.highest_segment = max(self.highest_segment, segment[1])
        for kinds in self.tables.values():
            _sort(kinds)

    def add_lake(self, after: int = 0) -> None:
        """Find the lake manifests of versions after `after`."""
        for item in self._store.list(paths.lake_manifests_prefix(), after=paths.lake_manifest(after, "full")):
            if (found := paths.parse_lake_manifest(item.path)) is not None:
                self.lake[found[1]].append(found[0])
        _sort(self.lake)

    def add_tables(self, table_ids: Iterable[UUID], after: int) -> None:
        """Find the manifests of some tables of versions after `after`; a missing folder has none."""

        def find(table_id: UUID) -> tuple[UUID, list[ObjectInfo]]:
            newest = paths.table_manifest(table_id, after, "full")
            return table_id, [*self._store.list(paths.table_manifests_prefix(table_id), after=newest)]

        with ThreadPoolExecutor(max_workers=8, thread_name_prefix="moulin-manifests") as threads:
            for table_id, items in threads.map(find, table_ids):
                for item in items:
                    if (manifest := paths.parse_table_manifest(item.path)) is not None:
                        self.tables[table_id][manifest[2]].append(manifest[1])
                _sort(self.tables[table_id])

    @property
    def highest_version(self) -> int:
        every = (self.lake, *self.tables.values())
        return max((versions[-1] for kinds in every for versions in kinds.values() if versions), default=0)

    @property
    def published_through(self) -> int:
        """Every version up to this one was published completely: a full manifest of it, or a later version, exists."""
        every = (self.lake, *self.tables.values())
        fulls = (kinds["full"][-1] for kinds in every if kinds["full"])
        deltas = (kinds["delta"][-1] - 1 for kinds in every if kinds["delta"])
        return max((0, *fulls, *deltas))

    def newest_incarnation(self, after: int) -> int:
        """The highest incarnation that wrote a manifest after a version, ignoring damaged manifests."""
        lives = [0]
        for version, name in self.names():
            if version > after:
                with suppress(Corrupt, Unsupported):
                    lives.append(self.read(name).incarnation)
        return max(lives)

    def has_table(self, table_id: UUID) -> bool:
        """Whether a manifest of the table was found."""
        return table_id in self.tables and any(self.tables[table_id].values())

    def names(self) -> Iterator[tuple[int, str]]:
        """Version and name of every manifest that was found."""
        for table_id, kinds in ((None, self.lake), *self.tables.items()):
            for kind, versions in kinds.items():
                for version in versions:
                    yield version, _name(table_id, version, kind)

    def parts(self, after: int) -> dict[int, list[str]]:
        """The deltas of each version after `after`."""
        parts: dict[int, list[str]] = {}
        for table_id, kinds in ((None, self.lake), *self.tables.items()):
            for version in kinds["delta"][bisect_right(kinds["delta"], after) :]:
                parts.setdefault(version, []).append(_name(table_id, version, "delta"))
        return parts

    def read(self, path: str, *, again: bool = False) -> pb.Manifest:
        """The manifest at `path`, checked against its name; `again` means that it will be read once more."""
        data = self._fetch(path)
        if again and len(data) <= self._room:
            self._room -= len(data)
            self._cache[path] = data
        return self._decode(path, data)

    def read_bytes(self, path: str) -> bytes:
        """The bytes of the manifest at `path`, checked against its name."""
        data = self._fetch(path)
        self._decode(path, data)
        return data

    def read_in_order(self, names: Iterable[str]) -> Iterator[pb.Manifest]:
        """Manifests one by one, with prefetching."""
        queue: list[tuple[str, Future[bytes]]] = []
        rest = iter(names)
        with ThreadPoolExecutor(max_workers=8, thread_name_prefix="moulin-manifests") as threads:
            while True:
                queue += [(name, threads.submit(self._fetch, name)) for name in islice(rest, _AHEAD - len(queue))]
                if not queue:
                    return
                name, data = queue.pop(0)
                yield self._decode(name, data.result())

    def _fetch(self, path: str) -> bytes:
        data = self._cache.pop(path, None)
        return self._store.get(path) if data is None else data

    def _decode(self, path: str, data: bytes) -> pb.Manifest:
        decoded = codec.decode(data, path)
        manifest = decoded.manifest
        if self._writing and not decoded.writable:
            raise Unsupported(f"Manifest {path} uses unknown features: recover with a newer moulin.")
        try:
            table_id = UUID(manifest.table_uuid) if manifest.table_uuid else None
        except ValueError:
            raise Corrupt(f"Manifest {path} names no table: restore it from a copy.") from None
        kind: paths.ManifestKind = "full" if decoded.full else "delta"
        named = _name(table_id, manifest.version, kind)
        if named != path:
            raise Corrupt(f"Manifest {path} has the content of {named}: it was moved. Put it back.")
        if manifest.lake_uuid != self.lake_uuid.bytes:
            raise Corrupt(f"Manifest {path} belongs to another lake: remove it.")
        scrub_all(manifest, self.scrubbers)
        return manifest
