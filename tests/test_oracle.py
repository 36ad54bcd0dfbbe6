"""The deletion oracle itself: it fires for what must live, and for nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import moulin
from moulin.catalog.sql import schema as s
from moulin.catalog.upkeep.erasure import erase
from moulin.catalog.upkeep.gc import collect
from moulin.lake import Lake
from moulin.storage import paths
from tests import oracle
from tests.commands import fork


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the oracle writes for one test, which is to see something."""
    file = tmp_path / "seen"
    file.touch()
    monkeypatch.setenv(oracle.VARIABLE, str(file))
    return file


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(str(tmp_path / "lake")) as made:
        made.create_database("shop")
        table = made.create_table("shop.orders", [("id", "long")])
        table.append(pa.table({"id": range(10)}))
        table.delete_where("id < 3")
        yield made


def kinds(lake: Lake) -> dict[str, list[str]]:
    """The paths of the lake's objects by their folder."""
    found: dict[str, list[str]] = {}
    for info in lake.store.list("tables"):
        found.setdefault(info.path.split("/")[2], []).append(info.path)
    return found


def test_it_sees_live_objects_go(lake: Lake, seen: Path) -> None:
    files = kinds(lake)
    erase(lake.store, files["data"] + files["deletes"] + files["manifests"], rows=True)
    told = seen.read_text()
    assert len(told.splitlines()) == len(files["data"] + files["deletes"] + files["manifests"])
    for path in files["data"] + files["deletes"] + files["manifests"]:
        assert f"{path} was deleted although" in told


def test_it_sees_a_pinned_version_go(lake: Lake, seen: Path) -> None:
    table = lake.table("shop.orders")
    before = table.version
    pin = lake.catalog.pin(table.id, before)
    table.overwrite(pa.table({"id": [1]}))
    (segment,) = lake.catalog.segments(table.id, before)
    catalog = lake.own_catalog()
    with catalog.pool.unordered() as connection:
        connection.execute(s.tables.update().values(oldest_version=table.version))
    erase(lake.store, [segment.facts.path], rows=True)
    assert segment.facts.path in seen.read_text()
    lake.catalog.unpin(pin)


def test_it_sees_files_of_readers_and_writers_under_way_go(lake: Lake, seen: Path) -> None:
    table = lake.table("shop.orders")
    (segment,) = lake.catalog.segments(table.id, table.version)
    under_way = table.scan().to_batches()
    next(under_way)
    table.overwrite(pa.table({"id": [1]}))
    catalog = lake.own_catalog()
    with catalog.pool.unordered() as connection:
        connection.execute(s.tables.update().values(oldest_version=table.version))
    new = paths.segment_path(table.id, catalog.reserve_segments(1), "00c0ffee")
    lake.store.put(new, b"written, and not committed yet")
    erase(lake.store, [segment.facts.path, new], rows=True)
    told = seen.read_text()
    assert f"{segment.facts.path} was deleted although a version that is kept" in told
    assert f"{new} was deleted although a living process" in told
    del under_way


def test_it_says_nothing_of_what_clean_up_may_delete(lake: Lake, seen: Path) -> None:
    table = lake.table("shop.orders")
    table.overwrite(pa.table({"id": [1]}))
    lake.drop_table("shop.orders", immediate=True)
    lake.create_table("shop.other", [("id", "long")]).append(pa.table({"id": [1]}))
    done = collect(lake.own_catalog(), history_keep=0, orphan_grace=0, byte_floor=0)
    assert done.deleted
    assert seen.read_text() == ""


def test_it_does_not_count_what_a_test_damages(lake: Lake, seen: Path) -> None:
    lake.store.delete(kinds(lake)["data"])
    assert seen.read_text() == ""


def test_it_sees_processes_that_tests_start(lake: Lake, seen: Path, tmp_path: Path) -> None:
    process = fork(_in_child, str(tmp_path / "lake"), str(seen))
    process.join(60)
    assert "was deleted although" in seen.read_text()


def _in_child(folder: str, seen: str) -> None:
    os.environ[oracle.VARIABLE] = seen
    with moulin.connect(folder) as lake:
        erase(lake.store, kinds(lake)["data"], rows=True)
