"""Mirrors: whatever happens, the target is a lake at some version."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.upkeep.gc import collect
from moulin.errors import Corrupt, FailedPrecondition, Unavailable
from moulin.mirror import Mirror, MirrorReport
from moulin.storage import open_store, paths
from tests.commands import Command
from tests.test_replica import SCHEMA, every_step, rows, shown


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[moulin.Lake]:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("d")
        yield lake


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "mirror")


def replica(target: str, **options: Any) -> moulin.Lake:
    return moulin.connect(target, read_only=True, **options)


@pytest.mark.s3
def test_a_mirror_on_s3_equals_its_source(
    lake: moulin.Lake, s3_url: str, s3_options: dict[str, str], tmp_path: Path
) -> None:
    mirror = Mirror(lake, s3_url, s3_options)
    first = mirror.run_once()
    assert (first.version, first.lag_versions, first.lag_seconds) == (lake.version, 0, 0.0)
    with replica(s3_url, storage_options=s3_options) as copy:
        for number, _ in enumerate(every_step(lake)):
            if number % 4 == 3:
                report = mirror.run_once()
                assert report.objects > 0
                assert copy.refresh() == report.version == lake.version
                assert shown(copy) == shown(lake)
        mirror.run_once()
        copy.refresh()
        assert shown(copy) == shown(lake)
    again = Mirror(lake, s3_url, s3_options).run_once()
    assert (again.objects, again.bytes) == (0, 0)
    expected = shown(lake)
    place = ["--lake", str(tmp_path / "new"), "--storage", s3_url, *_options(s3_options)]
    with Command(*place, "recover", "--json") as recovery:
        assert recovery.wait() == 0
        assert json.loads(recovery.said())["version"] == lake.version
    with moulin.connect(tmp_path / "new", storage=s3_url, storage_options=s3_options) as new:
        again_shown = shown(new)
        assert {**again_shown, "version": 0, "e.t": again_shown["e.t"][:3]} == {
            **expected,
            "version": 0,
            "e.t": expected["e.t"][:3],
            "e.another": again_shown["e.another"],
        }
        assert new.table("e.t").scan().to_arrow() == lake.table("e.t").scan().to_arrow()
        new.table("e.another").append(rows(500, 1))
    with pytest.raises(FailedPrecondition, match="is now independent"):
        Mirror(lake, s3_url, s3_options).run_once()


def _options(options: dict[str, str]) -> list[str]:
    return [part for key, value in options.items() for part in ("--storage-option", f"{key}={value}")]


def test_only_what_is_new_is_copied(lake: moulin.Lake, target: str) -> None:
    t = lake.create_table("d.t", SCHEMA)
    t.append(rows(0, 10))
    mirror = Mirror(lake, target)
    mirror.run_once()
    assert mirror.run_once().objects == 0
    t.append(rows(10, 10))
    t.delete_where("id = 3")
    assert mirror.run_once().objects == 4  # a segment, a deletion vector, two manifests
    assert mirror.run_once().objects == 0


def test_the_marker_comes_last(lake: moulin.Lake, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped anywhere in the first round, there is no lake at the target; the next round finishes the work."""
    lake.create_table("d.t", SCHEMA).append(rows(0, 10))
    mirror = Mirror(lake, target)
    put = mirror.target.put

    def refuse(path: str, data: bytes) -> None:
        if path == paths.marker():
            raise Unavailable("The store is full.")
        put(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(mirror.target, "put", refuse)
        with pytest.raises(Unavailable):
            mirror.run_once()
    with pytest.raises(moulin.errors.NotFound, match="contains no lake"):
        replica(target)
    assert Mirror(lake, target).run_once().objects == 1
    with replica(target) as copy:
        assert shown(copy) == shown(lake)


def test_manifests_stop_at_the_first_that_fails(
    lake: moulin.Lake, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = lake.create_table("d.t", SCHEMA)
    mirror = Mirror(lake, target)
    mirror.run_once()
    for n in range(6):
        t.append(rows(n, 1))
    torn = lake.version - 3
    put = mirror.target.put

    def refuse(path: str, data: bytes) -> None:
        if path == paths.table_manifest(t.id, torn, "delta"):
            raise Unavailable("The network is gone.")
        put(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(mirror.target, "put", refuse)
        with pytest.raises(Unavailable):
            mirror.run_once()
    with replica(target) as copy:
        assert copy.version == torn - 1
        assert copy.table("d.t").scan().count() == 2
        mirror.run_once()
        copy.refresh()
        assert shown(copy) == shown(lake)


def test_damage_is_not_mirrored(lake: moulin.Lake, target: str) -> None:
    t = lake.create_table("d.t", SCHEMA)
    t.append(rows(0, 10))
    (segment,) = t.scan().plan().segments
    data = lake.store.get(segment.facts.path)
    lake.store.put(segment.facts.path, data[:50] + bytes([data[50] ^ 1]) + data[51:])
    with pytest.raises(Corrupt, match="SHA-256"):
        Mirror(lake, target).run_once()
    assert not open_store(target).exists(segment.facts.path)
    assert not open_store(target).exists(paths.marker())
    lake.store.put(segment.facts.path, data)
    Mirror(lake, target).run_once()
    with replica(target) as copy:
        assert shown(copy) == shown(lake)


def test_a_cut_off_copy_is_copied_again(lake: moulin.Lake, target: str) -> None:
    t = lake.create_table("d.t", SCHEMA)
    t.append(rows(0, 10))
    (segment,) = t.scan().plan().segments
    open_store(target).put(segment.facts.path, b"cut")
    Mirror(lake, target).run_once()
    assert open_store(target).get(segment.facts.path) == lake.store.get(segment.facts.path)


def test_a_mirror_goes_on_after_clean_up_at_the_source(lake: moulin.Lake, target: str) -> None:
    """Files that are gone are not missed, and a target that slept goes on from full manifests."""
    t = lake.create_table("d.t", SCHEMA)
    t.append(rows(0, 3))
    mirror = Mirror(lake, target)
    mirror.run_once()
    with replica(target) as copy:
        for n in range(5):
            t.append(rows(10 * n, 3))
        t.compact(everything=True)
        lake.catalog.publisher.write_full(t.id)
        collect(lake.catalog, history_keep=0, byte_floor=0)
        t.append(rows(100, 3))
        collect(lake.catalog, history_keep=0, byte_floor=0)
        mirror.run_once()
        assert copy.refresh() == lake.version
        assert shown(copy) == shown(lake)


def test_a_file_deleted_during_a_round_is_not_missed(
    lake: moulin.Lake, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = lake.create_table("d.t", SCHEMA)
    for n in range(4):
        t.append(rows(n, 1))
    t.overwrite(rows(50, 2))
    mirror = Mirror(lake, target)
    copy_file, cleaned = mirror._copy_file, threading.Event()

    def clean_up_first(file: Any) -> int:
        if not cleaned.is_set():
            cleaned.set()
            collect(lake.catalog, history_keep=0, byte_floor=0)
            collect(lake.catalog, history_keep=0, byte_floor=0)
        return copy_file(file)

    monkeypatch.setattr(mirror, "_copy_file", clean_up_first)
    mirror.run_once()
    with replica(target) as copy:
        assert shown(copy) == shown(lake)


def test_a_target_that_is_the_lake_itself_or_another_lake_is_refused(lake: moulin.Lake, tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match="the lake itself"):
        Mirror(lake, lake.store.uri)
    with moulin.connect(tmp_path / "other"):
        pass
    with pytest.raises(FailedPrecondition, match="another lake"):
        Mirror(lake, str(tmp_path / "other")).run_once()


def test_a_mirror_follows_a_lake_that_is_written(lake: moulin.Lake, target: str) -> None:
    t = lake.create_table("d.t", SCHEMA)
    reports: list[MirrorReport] = []
    stop = threading.Event()
    follower = threading.Thread(target=Mirror(lake, target).follow, args=(0.01, stop, reports.append))
    follower.start()
    try:
        for n in range(20):
            t.append(rows(10 * n, 10))
        while not reports or reports[-1].version < lake.version:
            assert follower.is_alive()
            time.sleep(0.01)
    finally:
        stop.set()
        follower.join()
    versions = [report.version for report in reports]
    assert versions == sorted(versions)
    with replica(target) as copy:
        assert shown(copy) == shown(lake)


def test_lag_counts_what_is_not_copied(lake: moulin.Lake, target: str) -> None:
    from moulin.catalog.upkeep import mirror_source

    version = Mirror(lake, target).run_once().version
    t = lake.create_table("d.t", SCHEMA)
    t.append(rows(0, 1))
    behind, seconds = mirror_source.lag(lake.catalog, version)
    assert behind == 2
    assert seconds > 0


@pytest.mark.crash
def test_a_mirror_killed_at_any_moment_leaves_a_lake_at_some_version(
    lake: moulin.Lake, target: str, tmp_path: Path
) -> None:
    t = lake.create_table("d.t", SCHEMA)
    for n in range(30):
        t.append(rows(10 * n, 10))
    t.delete_where("id < 20")
    counts = {info.version: t.scan(version=info.version).count() for info in t.history()}
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    folder = Path(target)
    finished = 0
    for attempt in range(5):
        before = len([*folder.rglob("*")])
        with Command("--lake", str(tmp_path / "lake"), "mirror", target, "--interval", "0.01", "--json") as child:
            if attempt == 3:
                child.wait_until(lambda: "\n" in child.said())
                finished += 1
            else:
                child.wait_until(lambda: len([*folder.rglob("*")]) != before)  # noqa: B023
            time.sleep(chance.random() / 20)
            child.kill()
        if open_store(target).exists(paths.marker()):
            with replica(target) as copy:
                table = copy.table("d.t")
                assert len(table.scan().to_arrow()) == counts[table.version], f"seed {seed}"
        t.append(rows(1000 + attempt, 1))
        counts[t.version] = t.scan().count()
    assert finished
    Mirror(lake, target).run_once()
    with replica(target) as copy:
        assert shown(copy) == shown(lake)


def test_the_command_mirrors_and_reports_without_secrets(lake: moulin.Lake, target: str, tmp_path: Path) -> None:
    lake.create_table("d.t", SCHEMA).append(rows(0, 3))
    place = ["--lake", str(tmp_path / "lake"), "mirror"]
    with Command(*place, target, "--once", "--json") as done:
        assert done.wait() == 0
        report = json.loads(done.said())
    assert (report["version"], report["lag_versions"]) == (lake.version, 0)
    assert report["bytes"] > 0
    with Command(*place, target, "--once") as done:
        assert done.wait() == 0
        assert f"is at version {lake.version}, up to date" in " ".join(done.said().split())
    with Command(*place, "s3://user:secret@bucket/x", "--once") as refused:
        assert refused.wait() == 1
        assert "secret" not in refused.said()
