"""A log that is gone, or cut short, is damage; one whose owner closed it may go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from moulin.catalog.manifests.recover import recover
from moulin.catalog.sql import schema as s
from moulin.config import Config
from moulin.errors import Corrupt
from moulin.lake import Lake
from moulin.storage import open_store
from moulin.table.keyed import claim
from moulin.table.table import Table
from tests.table.other_process import OtherProcess

ITEMS = [("id", "long", False), ("name", "string")]
CALLS: dict[str, Callable[[Table], Any]] = {
    "get": lambda table: table.get(1),
    "scan": lambda table: table.scan().count(),
    "flush": lambda table: table.flush(),
    "put": lambda table: table.put(item(99)),
    "append": lambda table: table.append([item(99)]),
}


def item(number: int) -> dict[str, Any]:
    return {"id": number, "name": "a"}


@pytest.fixture(params=["", "store"])
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"log_folder": request.param} if request.param else {}


def killed(root: Path, settings: dict[str, Any], flushed: int = 30) -> Path:
    """Fifty puts by a process that is killed, some of them flushed; the folder of the logs."""
    with Lake.open(root, settings=settings) as lake:
        lake.create_database("shop")
        table_id = lake.create_table("shop.items", ITEMS, primary_key=["id"]).id
    with OtherProcess({"uri": root}, "shop.items", merge_background="off", **settings) as writer:
        writer.call("put_all", [item(number) for number in range(flushed)])
        writer.call("flush")
        writer.call("put_all", [item(number) for number in range(flushed, 50)])
    return root / "tables" / str(table_id) / "log"


def whole(log: Path) -> None:
    shutil.rmtree(log)


def files(log: Path) -> None:
    for file in (*log.glob("*/*.wal"), *log.glob("*/*.log")):
        file.unlink()


def cut(log: Path) -> None:
    """Everything that was written after the first entry."""
    (newest,) = log.glob("*/*.wal")
    with newest.open("r+b") as file:
        file.truncate(100)


@pytest.mark.parametrize("take", [whole, files])
def test_a_log_that_is_gone_is_damage_for_every_call(
    tmp_path: Path, settings: dict[str, Any], take: Callable[[Path], None]
) -> None:
    log = killed(tmp_path / "lake", settings, 0 if take is whole else 30)
    shutil.copytree(log, tmp_path / "copy")
    take(log)
    for call in CALLS.values():
        with Lake.open(tmp_path / "lake", settings=settings) as lake:
            table = lake.table("shop.items")
            with pytest.raises(Corrupt, match=r"log/0 is missing, .*restore"):
                call(table)
            with pytest.raises(Corrupt, match="is gone"):
                lake.table("shop.items", read_only=True).scan()
    shutil.rmtree(log, ignore_errors=True)
    shutil.copytree(tmp_path / "copy", log)
    with Lake.open(tmp_path / "lake", settings=settings) as lake:
        assert lake.table("shop.items").scan().count() == 50, "restored as the error says"


def test_a_log_that_ends_before_what_is_in_segments_is_damage(tmp_path: Path) -> None:
    log = killed(tmp_path / "lake", {})
    cut(log)
    for name, call in CALLS.items():
        with (
            Lake.open(tmp_path / "lake") as lake,
            pytest.raises(Corrupt, match=r"ends at position \d+, but segments have rows up to 30: it was truncated"),
        ):
            call(lake.table("shop.items"))
            raise AssertionError(name)
    with Lake.open(tmp_path / "lake") as lake:
        assert lake.table("shop.items").at(version=lake.version).count() == 30, "versions can be read"


@pytest.mark.parametrize("take", [whole, files, cut])
def test_what_is_lost_can_be_given_up(tmp_path: Path, take: Callable[[Path], None]) -> None:
    take(killed(tmp_path / "lake", {}))
    with Lake.open(tmp_path / "lake") as lake:
        table = lake.table("shop.items")
        assert table.forget_lost_logs() == [0]
        table.put(item(70))
        assert table.scan().count() == 31
        assert table.forget_lost_logs() == []


def test_a_log_that_its_owner_closed_may_go(tmp_path: Path, settings: dict[str, Any]) -> None:
    log = killed(tmp_path / "lake", settings)
    with Lake.open(tmp_path / "lake", settings=settings) as lake:
        lake.table("shop.items").put(item(60))
    shutil.rmtree(log)
    elsewhere = {"log_folder": str(tmp_path / "elsewhere")}
    for number, more in enumerate((settings, elsewhere, {"log_folder": "store"}, {}), 61):
        with Lake.open(tmp_path / "lake", settings=more) as lake:
            table = lake.table("shop.items")
            table.put(item(number))
            assert table.scan().count() == number - 9
    with Lake.open(tmp_path / "lake", settings=settings) as lake:
        assert lake.table("shop.items").at(version=lake.version).count() == 55


def test_a_log_that_was_not_synced_may_end_before_what_is_in_segments(tmp_path: Path) -> None:
    """A power cut takes what was not synced; what was flushed was."""
    log = killed(tmp_path / "lake", {"log_sync": "never"})
    cut(log)
    with Lake.open(tmp_path / "lake") as lake:
        assert lake.table("shop.items").scan().count() == 30


@pytest.mark.parametrize("part", ["LocalLog", "StoreLog"])
def test_a_process_that_dies_between_its_claim_and_its_log_leaves_no_damage(
    tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"log_folder": "store"} if part == "StoreLog" else {}
    with Lake.open(tmp_path / "lake", settings=settings) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.items", ITEMS, primary_key=["id"])

        def die(*arguments: Any, lock: int | None = None, **options: Any) -> Any:
            if lock is not None:
                os.close(lock)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(claim, part, die)
            table.put(item(1))
        (region,) = lake.catalog.regions(table.id)
        assert region.owner
    with Lake.open(tmp_path / "lake", settings=settings) as lake:
        table = lake.table("shop.items")
        assert table.scan().count() == 0
        table.put(item(1))
        assert table.scan().count() == 1


def test_a_region_that_an_earlier_version_claimed_opens_without_its_log(tmp_path: Path) -> None:
    """It did not say whether it was closed, and its log may have been moved."""
    log = killed(tmp_path / "lake", {})
    with Lake.open(tmp_path / "lake") as lake, lake.catalog.pool.unordered() as connection:  # type: ignore[attr-defined]
        connection.execute(sa.update(s.regions).values(owner="process 7 on elsewhere"))
    shutil.copytree(tmp_path / "lake", tmp_path / "other")
    with Lake.open(tmp_path / "other") as lake:
        assert lake.table("shop.items").scan().count() == 50
    shutil.rmtree(log)
    with Lake.open(tmp_path / "lake") as lake:
        table = lake.table("shop.items")
        assert table.scan().count() == 30
        table.put(item(70))
        assert table.scan().count() == 31


@pytest.mark.parametrize("kept", [True, False])
def test_a_recovered_lake_reads_the_logs_that_it_finds(tmp_path: Path, kept: bool) -> None:
    log = killed(tmp_path / "lake", {})
    (tmp_path / "lake" / "catalog.sqlite").unlink()
    for rest in ("-wal", "-shm"):
        (tmp_path / "lake" / f"catalog.sqlite{rest}").unlink(missing_ok=True)
    if not kept:
        shutil.rmtree(log)
    recover(open_store(tmp_path / "lake"), f"sqlite:///{tmp_path / 'lake' / 'catalog.sqlite'}", Config())
    with Lake.open(tmp_path / "lake") as lake:
        assert lake.table("shop.items").scan().count() == (50 if kept else 30)
