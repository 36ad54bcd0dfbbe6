"""Every file of a lake is deleted in turn, and damaged in turn: check, mirror, replica and recovery name it.

What a tool does not name, it provably does not need: `NOT_NEEDED` says why, for each tool and kind of file.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.commit import backfills
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.catalog.upkeep.published import published_line
from moulin.catalog.upkeep.verification import projection_files
from moulin.config import Config
from moulin.errors import Corrupt, MoulinError
from moulin.iceberg.check.projections import check_projections
from moulin.iceberg.projection.projection import project
from moulin.ingest.check_streams import check_streams
from moulin.ingest.setup import set_up
from moulin.mirror import Mirror
from moulin.pipeline.nursery.nursery import Nursery
from moulin.storage import open_store, paths
from moulin.table.write.writes import prepare_append
from tests.pipeline.nursery.test_nursery import Writer, logs

COLUMNS = [("id", "long", False), ("name", "string")]
NOT_NEEDED = {
    ("check", "full"): "the deltas that it stands for are all there",
    ("check", "merged object"): "its records are in segments",
    ("check", "last object"): "nothing after it tells that it was there",
    ("check", "log"): "all that was put is in segments",
    ("mirror", "full"): "the deltas that it stands for are all there",
    ("mirror", "projection"): "it is made again when an engine asks for it",
    ("mirror", "merged object"): "its records are in segments",
    ("mirror", "object"): "it is in no version yet; a mirror copies versions",
    ("mirror", "last object"): "it is in no version yet; a mirror copies versions",
    ("mirror", "log"): "all that was put is in segments",
    ("replica", "full"): "the deltas that it stands for are all there",
    ("replica", "newest manifest"): "nothing after it tells that it was there: the replica shows the version before",
    ("replica", "journal"): "only writers follow rows through merges",
    ("replica", "backfill"): "only a load asks which files were loaded",
    ("replica", "set aside"): "only operators read it",
    ("replica", "projection"): "a replica reads segments",
    ("replica", "merged object"): "a replica shows versions",
    ("replica", "object"): "a replica shows versions",
    ("replica", "last object"): "a replica shows versions",
    ("replica", "log"): "a replica shows versions",
    ("recover", "full"): "the deltas that it stands for are all there",
    ("recover", "newest manifest"): "nothing after it tells that it was there: recovery reports the version before",
    **{
        (tool, "leftover"): "no row names it: a projection was begun there and made elsewhere"
        for tool in ("check", "mirror", "replica", "recover")
    },
    **{
        (tool, "covered manifest"): "the lake's full manifest after it holds all it said; clean-up deletes such"
        for tool in ("check", "mirror", "replica", "recover")
    },
    **{
        ("recover", kind): "recovery reads manifests alone; `check` names what else is missing"
        for kind in (
            "segment",
            "keys",
            "vector",
            "journal",
            "index",
            "backfill",
            "set aside",
            "projection",
            "merged object",
            "object",
            "last object",
            "log",
        )
    },
}


@dataclass
class Ruin:
    """A small lake with files of every kind, and what it takes to look at it with each tool."""

    lake: moulin.Lake
    folder: Path
    scratch: Path
    frontier: int = -1
    last_object: int = -1
    full_version: int = 0
    projected: frozenset[str] = frozenset()

    def files(self) -> list[str]:
        return sorted(i.path for i in self.lake.store.list() if not i.path.startswith(("catalog.sqlite", "living/")))

    def kind(self, path: str) -> str:
        if paths.parse_lake_manifest(path) or paths.parse_table_manifest(path):
            if path.endswith("full"):
                return "full"
            if (lake := paths.parse_lake_manifest(path)) is not None and lake[0] <= self.full_version:
                return "covered manifest"
            return "newest manifest" if path.endswith(f"{self.lake.version:020}.delta") else "manifest"
        if (found := paths.parse_baby_segment(path)) is not None:
            past = "last object" if found[1] == self.last_object else "object"
            return "merged object" if found[1] <= self.frontier else past
        parsers: dict[str, Callable[[str], object]] = {
            "segment": paths.parse_segment_path,
            "keys": paths.parse_key_index_path,
            "vector": paths.parse_vector_path,
            "journal": paths.parse_journal_path,
            "index": paths.parse_index_path,
            "projection": paths.parse_projection_path,
            "marker": lambda one: one == paths.marker() or None,
            "backfill": lambda one: "/backfills/" in one or None,
            "set aside": lambda one: one.startswith("set-aside/") or None,
            "log": lambda one: "/log/" in one or None,
        }
        kind = next(kind for kind, parse in parsers.items() if parse(path) is not None)
        return "leftover" if kind == "projection" and path not in self.projected else kind

    def said_by(self, tool: str) -> str:
        """What a tool reports; nothing when it finds the lake whole."""
        try:
            return str(getattr(self, f"_{tool}")() or "")
        except MoulinError as error:
            return error.message

    def _check(self) -> str:
        catalog = self.lake.own_catalog()
        found = [*check(catalog), *check_streams(catalog), *check_projections(catalog)]
        return "\n".join(f"{finding.where}: {finding.found}" for finding in found)

    def _mirror(self) -> None:
        target = self.scratch / uuid.uuid4().hex
        try:
            Mirror(self.lake, str(target)).run_once()
        except MoulinError:
            assert not open_store(target).exists(paths.marker()), "what cannot be copied whole is no lake yet"
            raise

    def _replica(self) -> str:
        with moulin.connect(self.folder, read_only=True) as replica:
            for database in replica.databases():
                for entry in replica.tables(database.name):
                    table = replica.table(f"{database.name}.{entry.name}")
                    for info in table.history(None if database.name == "d" else 1):
                        table.scan(version=info.version).to_arrow()
                        if entry.name == "events":
                            table.scan(where="name = 'row 3'", version=info.version).to_arrow()
            for key in range(4):
                replica.table("d.keyed").get(key)
        return ""

    def _recover(self) -> str:
        found = recover(self.lake.store, f"sqlite:///{self.scratch}/{uuid.uuid4().hex}.sqlite", Config())
        self.lake.store.delete([paths.lake_manifest(found.first_version, "full")])
        return found.incomplete or ""


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": n, "name": f"row {n}"} for n in range(first, first + count)]


def _fill(lake: moulin.Lake) -> Ruin:
    ruin = Ruin(lake, Path(lake.uri), Path(lake.uri).parent / "scratch")
    ruin.scratch.mkdir()
    token = set_up(lake).token
    assert token is not None
    writer = Writer(lake, token)
    writer.send(logs("a"), b"not a request")
    Nursery(lake, spark=False).run_once()
    ruin.frontier = writer.stream().frontier
    writer.send(logs("b"))
    writer.send(logs("c"))
    ruin.last_object = writer.send(logs("d"))
    lake.create_database("d")
    events = lake.create_table("d.events", COLUMNS)
    events.append(rows(0, 4))
    events.append(rows(4, 4))
    events.create_index("name")
    events.delete_where("id = 1")
    events.compact(everything=True)
    events.tag("kept")
    keyed = lake.create_table("d.keyed", COLUMNS, primary_key=["id"])
    keyed.append(rows(0, 4))
    keyed.append(rows(2, 1))
    _load_batch(lake, events)
    lake.create_view("d.all", ["events", "keyed"])
    lake.own_catalog().publisher.write_full(events.id)
    lake.own_catalog().publisher.write_full(None)
    ruin.full_version = lake.version
    with lake.transaction() as tx:
        tx.table("d.events").append(rows(20, 1))
    project(lake.context, events.id)
    with lake.own_catalog().pool.read() as connection:
        ruin.projected = frozenset(file.path for file in projection_files(connection))
    events.append(rows(21, 1))
    keyed.close()
    return ruin


def _load_batch(lake: moulin.Lake, table: Any) -> None:
    """A batch of a backfill, as the loader commits it."""
    data = b'{"a list": "of files"}'
    digest, source = hashlib.sha256(data).digest(), "0" * 32
    lake.store.put(paths.backfill_batch(table.id, source, 0, digest), data)
    change = prepare_append(lake.context, table.state(), rows(10, 2))
    request = backfills.request_id(table.id, source, 0)
    lake.context.committer.commit([replace(change)], request_id=request, digest=digest)


@pytest.fixture(scope="module")
def ruin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ruin]:
    with moulin.connect(tmp_path_factory.mktemp("ruin") / "lake") as lake:
        yield _fill(lake)


def test_there_are_files_of_every_kind_and_each_tool_finds_them_whole(ruin: Ruin) -> None:
    kinds = {ruin.kind(path) for path in ruin.files()}
    assert {kind for _, kind in NOT_NEEDED} | {"manifest", "marker"} == kinds
    for tool in ("check", "mirror", "replica", "recover"):
        assert ruin.said_by(tool) == ""


@pytest.mark.parametrize("tool", ["check", "mirror", "replica", "recover"])
def test_a_file_that_is_missing_is_named(ruin: Ruin, tool: str) -> None:
    wrong, done = [], set()
    for path in ruin.files():
        kind = ruin.kind(path)
        excused = (tool, kind) in NOT_NEEDED
        if excused and kind in done:
            continue
        done.add(kind)
        file = ruin.folder / path
        aside = file.rename(ruin.scratch / "aside")
        try:
            said = ruin.said_by(tool)
        finally:
            aside.rename(file)
        if (path not in said) != excused:
            wrong.append((kind, path, said))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("tool", ["check", "mirror"])
@pytest.mark.parametrize("damage", ["a flipped bit", "a cut", "nothing left"])
def test_a_file_that_is_damaged_is_named(ruin: Ruin, tool: str, damage: str) -> None:
    wrong = []
    for path in ruin.files():
        kind = ruin.kind(path)
        if kind in ("marker", "set aside") or (tool, kind) in NOT_NEEDED:
            continue
        if kind == "projection" and damage == "a flipped bit":
            continue  # Avro has no checksums: some bits change what a file says, and nothing tells
        file = ruin.folder / path
        whole = file.read_bytes()
        spoiled = bytearray(whole)
        spoiled[len(whole) * 2 // 5] ^= 4
        file.write_bytes({"a flipped bit": bytes(spoiled), "a cut": whole[:-3], "nothing left": b""}[damage])
        try:
            said = ruin.said_by(tool)
        finally:
            file.write_bytes(whole)
        if path not in said:
            wrong.append((kind, path, said))
    assert not wrong, "\n".join(map(str, wrong))
    assert ruin.said_by(tool) == ""


def test_a_mirror_that_finds_damage_leaves_its_target_at_the_version_before(ruin: Ruin) -> None:
    target = ruin.scratch / "steady"
    mirror = Mirror(ruin.lake, str(target))
    before = mirror.run_once().version
    table = ruin.lake.table("d.events")
    for n in range(3):
        table.append(rows(30 + n, 1))
    gap = ruin.folder / paths.table_manifest(table.id, before + 2, "delta")
    whole = gap.read_bytes()
    for spoil in (lambda: gap.write_bytes(whole[:-1]), gap.unlink):
        spoil()
        for one in (mirror, Mirror(ruin.lake, str(target))):
            with pytest.raises(Corrupt, match=gap.name):
                one.run_once()
        with moulin.connect(target, read_only=True) as copy:
            assert copy.version in (before, before + 1)
        gap.write_bytes(whole)
    assert mirror.run_once().version == before + 3
    with moulin.connect(target, read_only=True) as copy:
        assert copy.table("d.events").scan().count() == table.scan().count()


def test_a_replica_that_follows_names_a_manifest_that_is_missing_and_stays_where_it_is(ruin: Ruin) -> None:
    table = ruin.lake.table("d.events")
    with moulin.connect(ruin.folder, read_only=True) as replica:
        before = replica.version
        for n in range(3):
            table.append(rows(40 + n, 1))
        gap = ruin.folder / paths.table_manifest(table.id, before + 2, "delta")
        whole = gap.read_bytes()
        gap.unlink()
        for _ in range(2):
            with pytest.raises(Corrupt, match=f"{gap.name} is missing"):
                replica.refresh()
        assert replica.version == before
        assert replica.table("d.events").scan().count() == table.scan(version=before).count()
        gap.write_bytes(whole)
        assert replica.refresh() == before + 3


def test_clean_up_is_not_taken_for_damage_by_those_who_look_at_manifests(ruin: Ruin) -> None:
    """A gap that clean-up may have made is none: below full manifests, and where a table was purged."""
    lake = ruin.lake
    gone = lake.create_table("d.gone", COLUMNS)
    gone.append(rows(0, 1))
    gone.append(rows(1, 1))
    lake.drop_table("d.gone", immediate=True)
    table = lake.table("d.events")
    table.drop_tag("kept")
    lake.own_catalog().publisher.write_full(table.id)
    table.append(rows(50, 1))
    for _ in range(3):
        collect(lake.own_catalog(), history_keep=0, byte_floor=0, orphan_grace=1e9)
    assert not [*lake.store.list(paths.table_prefix(gone.id))]
    assert not lake.store.exists(paths.lake_manifest(1, "delta"))
    table.append(rows(51, 1))
    assert published_line(lake.own_catalog())[1] == []
    for tool in ("check", "mirror", "replica", "recover"):
        assert ruin.said_by(tool) == ""


def test_without_a_copy_the_history_before_a_lost_manifest_is_given_up_and_the_rest_is_whole(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        ruin = _fill(lake)
        events = lake.table("d.events")
        lost = sorted(i.path for i in lake.store.list(paths.table_manifests_prefix(events.id)))[2]
        lake.store.delete([lost])
        assert lost in ruin.said_by("check")
        expected = events.scan().to_arrow()
        events.drop_tag("kept")
        lake.write_manifests()
        for _ in range(2):
            collect(lake.own_catalog(), history_keep=0, byte_floor=0, orphan_grace=1e9)
        for tool in ("check", "mirror", "replica", "recover"):
            assert ruin.said_by(tool) == ""
        with moulin.connect(tmp_path / "lake", read_only=True) as replica:
            assert replica.table("d.events").scan().to_arrow() == expected
