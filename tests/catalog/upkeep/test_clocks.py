"""Wrong clocks: whichever process has one, nothing goes before its time, and nobody is locked out for long."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.tasks.merge_tasks import PlannedTask
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.config import DAY, HOUR
from moulin.errors import FailedPrecondition
from moulin.lake import Lake
from moulin.meta.server.janitor_loop import Janitor
from moulin.table.table import Table

pytestmark = pytest.mark.sample(4)

NANOS = 1_000_000_000
COLUMNS = [("id", "long", False), ("n", "long")]
SKEWS = {"+1h": HOUR, "-1h": -HOUR, "+2d": 2 * DAY, "-2d": -2 * DAY, "+30d": 30 * DAY, "-30d": -30 * DAY}
DISAGREE = "clocks differ"

Open = Callable[..., Lake]


@pytest.fixture(params=SKEWS)
def skew(request: pytest.FixtureRequest) -> float:
    return SKEWS[request.param]


@pytest.fixture(params=["folder", pytest.param("postgres", marks=pytest.mark.postgres)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    if request.param == "folder":
        return {"uri": str(tmp_path / "lake")}
    return {"uri": request.getfixturevalue("postgres_url"), "storage": str(tmp_path / "lake")}


@pytest.fixture
def opened(address: dict[str, Any]) -> Iterator[Open]:
    """Opens the lake as a process would whose clock is off by so many seconds."""
    lakes: list[Lake] = []

    def open_it(skew: float = 0, **settings: Any) -> Lake:
        clock = (lambda: time.time_ns() + int(skew * NANOS)) if skew else None
        lakes.append(Lake.open(**address, clock=clock, settings=settings))
        return lakes[-1]

    yield open_it
    for lake in lakes:
        lake.close()


@pytest.fixture
def lake(opened: Open) -> Lake:
    """The lake of a process whose clock is right, with a table that nobody changed for ten days."""
    lake = opened()
    lake.create_database("shop")
    lake.create_table("shop.t", COLUMNS).append(rows(0, 10))
    with lake.own_catalog().pool.unordered() as connection:
        for column in (s.versions.c.timestamp_ns, s.table_commits.c.timestamp_ns, s.counter.c.clock_ns):
            aged = {column.name: column - int(10 * DAY * NANOS)}
            connection.execute(column.table.update().values(aged))
    return lake


def rows(first: int, count: int) -> list[dict[str, int]]:
    return [{"id": n, "n": n} for n in range(first, first + count)]


def ids(source: Any) -> list[int]:
    return sorted(source.scan().to_arrow().column("id").to_pylist())


def clean_up(lake: Lake) -> None:
    """Once for the catalog and once for the bytes, if it is allowed at all."""
    with suppress(FailedPrecondition):
        collect(lake.own_catalog(), byte_floor=0)
        collect(lake.own_catalog(), byte_floor=0)


def test_what_was_current_until_now_is_kept_whoever_replaced_it(lake: Lake, opened: Open, skew: float) -> None:
    old = lake.table("shop.t").version
    opened(skew).table("shop.t").overwrite(rows(100, 1))
    for cleaner in (lake, opened(skew)):
        clean_up(cleaner)
        assert ids(lake.table("shop.t").at(version=old)) == list(range(10))
    lake.table("shop.t").append(rows(200, 1))
    clean_up(lake)
    assert ids(lake.table("shop.t").at(version=old)) == list(range(10))
    assert ids(lake.table("shop.t")) == [100, 200]
    assert check(lake.own_catalog()) == []


def test_clean_up_under_a_wrong_clock_is_refused(lake: Lake, opened: Open, skew: float) -> None:
    with pytest.raises(FailedPrecondition, match=DISAGREE):
        collect(opened(skew).own_catalog())
    with pytest.raises(FailedPrecondition, match=DISAGREE):
        collect(opened(skew).own_catalog(), dry_run=True)
    collect(lake.own_catalog())


@pytest.mark.parametrize("skew", ["+1h", "+2d", "+30d"], indirect=True)
def test_clean_up_is_refused_while_the_newest_change_lies_in_the_future(lake: Lake, opened: Open, skew: float) -> None:
    opened(skew).table("shop.t").append(rows(100, 1))
    with pytest.raises(FailedPrecondition, match=f"{DISAGREE}.*in the future"):
        collect(lake.own_catalog())
    tolerant = opened(clock_tolerance=31 * DAY)
    assert not collect(tolerant.own_catalog()).deleted, "whoever knows that this clock is right may go on"
    assert len(ids(lake.table("shop.t"))) == 11


def test_what_was_dropped_can_be_brought_back(lake: Lake, opened: Open, skew: float) -> None:
    """Whoever of the three has the wrong clock: who drops, who commits after that, who cleans up."""
    lake.create_table("shop.u", COLUMNS).append(rows(0, 10))
    skewed = opened(skew)
    skewed.drop_table("shop.t")
    lake.drop_table("shop.u")
    skewed.create_table("shop.v", COLUMNS)
    for cleaner in (lake, skewed):
        clean_up(cleaner)
    for name in ("shop.t", "shop.u"):
        assert ids(lake.resurrect_table(name)) == list(range(10))


def test_a_reader_with_a_wrong_clock_keeps_what_it_reads(lake: Lake, opened: Open, skew: float) -> None:
    reader = opened(skew, scan_batch_rows=1, scan_ahead_bytes=1)
    batches = reader.table("shop.t").scan().to_batches()
    got = [next(batches)]
    lake.table("shop.t").overwrite(rows(100, 1))
    for cleaner in (lake, opened(skew)):
        with suppress(FailedPrecondition):
            collect(cleaner.own_catalog(), history_keep=0, byte_floor=0)
    got += batches
    assert sum(batch.num_rows for batch in got) == 10


def test_an_append_between_write_and_commit_keeps_its_file(
    lake: Lake, opened: Open, skew: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever of the two has the wrong clock: who writes, or who cleans up."""
    for writer, cleaner in ((lake, opened(skew)), (opened(skew), lake)):
        commit = writer.catalog.commit

        def clean_first(*arguments: Any, **options: Any) -> Any:
            clean_up(cleaner)  # noqa: B023 - called before the loop goes on
            return commit(*arguments, **options)  # noqa: B023

        monkeypatch.setattr(writer.catalog, "commit", clean_first)
        writer.table("shop.t").append(rows(100, 5))
    assert len(ids(lake.table("shop.t"))) == 20
    assert check(lake.own_catalog()) == []


def test_a_lease_taken_under_a_wrong_clock_ends_in_time(lake: Lake, opened: Open, skew: float) -> None:
    assert opened(skew).own_catalog().maintenance.take_lease("work", "skewed", 60)
    mine = lake.own_catalog().maintenance
    assert not mine.take_lease("work", "right", 60), "it is taken"
    assert opened(61).own_catalog().maintenance.take_lease("work", "right", 60), "a minute later it is free"


def test_a_merge_task_claimed_under_a_wrong_clock_comes_back_in_time(lake: Lake, opened: Open, skew: float) -> None:
    table = lake.table("shop.t")
    table.append(rows(10, 10))
    numbers = {segment.facts.number: 0 for segment in lake.catalog.segments(table.id, lake.version)}
    [made] = lake.catalog.maintenance.create_merge_tasks([PlannedTask(table.id, numbers, 1)])
    assert made is not None
    assert opened(skew).catalog.maintenance.claim_merge_task("skewed", seconds=60) is not None
    assert lake.catalog.maintenance.claim_merge_task("right", seconds=60) is None, "it is taken"
    claimed = opened(61).catalog.maintenance.claim_merge_task("right", seconds=60)
    if claimed is None:  # that ended the lease as a failed attempt, which is followed by a pause
        claimed = opened(200).catalog.maintenance.claim_merge_task("right", seconds=60)
    assert claimed is not None
    assert claimed.claim.task_id == made.task_id


def test_a_merge_task_planned_under_a_wrong_clock_can_be_claimed_in_time(lake: Lake, opened: Open, skew: float) -> None:
    table = lake.table("shop.t")
    table.append(rows(10, 10))
    numbers = {segment.facts.number: 0 for segment in lake.catalog.segments(table.id, lake.version)}
    assert opened(skew).catalog.maintenance.create_merge_tasks([PlannedTask(table.id, numbers, 1)]) != [None]
    assert opened(HOUR + 60).catalog.maintenance.claim_merge_task("right") is not None


@pytest.mark.parametrize("skew", ["+30d"], indirect=True)
def test_a_janitor_with_a_wrong_clock_reports_that_and_removes_nothing(lake: Lake, opened: Open, skew: float) -> None:
    events = lake.create_table("shop.events", [("ts", "timestamptz")], event_time="ts")
    events.set_properties({"moulin.retention-ns": int(7 * DAY * NANOS)})
    events.append([{"ts": datetime.now(UTC)}])
    report = Janitor(opened(skew)).run_once()
    assert report is not None
    assert [DISAGREE in failure for failure in report.failures] == [True, True], "retention and clean-up"
    assert events.scan().count() == 1


@pytest.mark.parametrize("place", ["folder", pytest.param("s3", marks=pytest.mark.s3)])
def test_the_clock_of_the_storage_is_asked_too(
    place: str, skew: float, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine whose own clock is wrong, and with it that of a catalog in a file."""
    options: dict[str, Any] = {}
    if place == "s3":
        options = {
            "storage": request.getfixturevalue("s3_url"),
            "storage_options": request.getfixturevalue("s3_options"),
        }
    with Lake.open(tmp_path / "lake", **options) as lake:
        collect(lake.own_catalog())
        right = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: right() + int(skew * NANOS))
        with pytest.raises(FailedPrecondition, match=f"{DISAGREE}.*its storage"):
            collect(lake.own_catalog())
        monkeypatch.undo()
        assert not [info.path for info in lake.store.list() if "clock" in info.path], "the probe is gone"


CHANGES: dict[str, Callable[[Table], Any]] = {
    "append": lambda table: table.append(rows(100, 5)),
    "delete": lambda table: table.delete_where("id = 3"),
    "overwrite": lambda table: table.overwrite(rows(100, 5), where="id > 3"),
    "compact": lambda table: table.compact(everything=True),
    "index": lambda table: table.create_index("id"),
}


class TestLivingWriters:
    """On a folder no clock decides about files that a living process will commit: here each looks a month old."""

    @pytest.fixture
    def address(self, tmp_path: Path) -> dict[str, Any]:
        return {"uri": str(tmp_path / "lake")}

    @pytest.mark.parametrize("change", CHANGES)
    def test_files_of_a_change_under_way_are_left_alone(
        self, change: str, lake: Lake, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table, other = lake.table("shop.t"), opened()
        table.append(rows(10, 10))
        table.delete_where("id = 12")
        commit = lake.catalog.commit

        def clean_first(*arguments: Any, **options: Any) -> Any:
            make_old(tmp_path)
            collect(other.own_catalog(), orphan_grace=0)
            return commit(*arguments, **options)

        monkeypatch.setattr(lake.catalog, "commit", clean_first)
        CHANGES[change](table)
        monkeypatch.undo()
        assert check(lake.own_catalog()) == []

    def test_files_of_a_dead_writer_go(self, lake: Lake, opened: Open, tmp_path: Path) -> None:
        other = opened()
        number = other.catalog.reserve_segments(1)
        folder = tmp_path / "lake" / "tables" / str(lake.table("shop.t").id) / "data" / f"_moulin_segment={number}"
        folder.mkdir()
        (folder / "0badf00d.parquet").write_bytes(b"half a segment")
        make_old(tmp_path)
        assert not [g for g in collect(lake.own_catalog()).deleted if g.reason == "orphan"]
        other.close()
        assert [g.reason for g in collect(lake.own_catalog()).deleted] == ["orphan"]

    def test_files_of_a_write_that_failed_go_in_the_end(self, lake: Lake, opened: Open, tmp_path: Path) -> None:
        other = opened(orphan_grace=0.05)
        number = other.catalog.reserve_segments(1)
        folder = tmp_path / "lake" / "tables" / str(lake.table("shop.t").id) / "data" / f"_moulin_segment={number}"
        folder.mkdir()
        (folder / "0badf00d.parquet").write_bytes(b"half a segment")
        make_old(tmp_path)
        time.sleep(0.1)
        assert [g.reason for g in collect(lake.own_catalog()).deleted] == ["orphan"]


def make_old(root: Path) -> None:
    """As if the machine's clock had jumped ahead by a month since the files were written."""
    for file in (root / "lake" / "tables").rglob("*"):
        if file.is_file():
            past = time.time_ns() - int(30 * DAY * NANOS)
            os.utime(file, ns=(past, past))


def test_stamps_rise_with_versions_whatever_clocks_say(lake: Lake, opened: Open) -> None:
    for skew in SKEWS.values():
        opened(skew).table("shop.t").append(rows(100, 1))
    with lake.own_catalog().pool.read() as connection:
        stamps = [*connection.execute(sa.select(s.versions.c.timestamp_ns).order_by(s.versions.c.version)).scalars()]
    assert stamps == sorted(set(stamps))
