"""What holds a keyed table up or stops it: its own knobs, a disk that is full, and one that cannot be written."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moulin.errors import FailedPrecondition, Unavailable
from moulin.lake import Lake
from moulin.storage import paths
from moulin.table.keyed.log import log_file
from moulin.table.keyed.region import RegionWriter
from moulin.table.table import Table
from tests.table.keyed_tables import ITEMS, check_flushed, row, rows
from tests.table.other_process import OtherProcess

QUIET = {"merge_background": "off"}


def make(folder: Path, **settings: Any) -> tuple[Lake, Table]:
    lake = Lake.open(folder, settings={**QUIET, **settings})
    lake.create_database("shop")
    return lake, lake.create_table("shop.items", ITEMS, primary_key=["id"])


# Knobs


def until_held_up(folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> tuple[int, int]:
    """With no flush, and a memtable for every row: how many puts went in before the first wait, and before the stop."""
    usual = {"memtable_bytes": 1, "stall_seconds": 0.02, "memtable_slowdown": 3, "memtable_stop": 6}
    lake, items = make(folder, **{**usual, **settings})
    with lake, monkeypatch.context() as patch:
        patch.setattr(items._keyed_only(), "_flush_all", lambda writer: None)
        slowed: int | None = None
        for number in range(50):
            try:
                items.put(row(number))
            except Unavailable:
                assert items.get(number) is None
                stalls = writer_of(items).stalls
                assert (stalls.stopped, stalls.longest >= lake.config.stall_seconds) == (1, True)
                return number if slowed is None else slowed, number
            if slowed is None and writer_of(items).stalls.slowed:
                slowed = number
    raise AssertionError("nothing held the writer up")


def writer_of(table: Table) -> RegionWriter:
    (writer,) = table._keyed_only()._regions.values()
    return writer


def test_memtable_settings_decide_when_writers_are_slowed_and_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held_up(name: str, **settings: Any) -> tuple[int, int]:
        return until_held_up(tmp_path / name, monkeypatch, **settings)

    assert held_up("usual") == (3, 6)
    assert held_up("slowed early", memtable_slowdown=1) == (1, 6)
    assert held_up("slowed never", memtable_slowdown=6) == (6, 6)
    assert held_up("stopped late", memtable_stop=9) == (3, 9)
    many = held_up("larger memtables", memtable_bytes=1_000)
    assert many[0] > 3 * 3
    assert many[1] > 6 * 3


def level0(folder: Path, segments: int, **settings: Any) -> RegionWriter:
    """Some level-0 segments, and three puts, each of which fills a memtable that is flushed at once."""
    usual = {"memtable_bytes": 1, "stall_seconds": 0.02, "memtable_slowdown": 50, "memtable_stop": 99}
    lake, items = make(folder, **{**usual, **settings})
    with lake:
        for number in range(segments):
            items.append([row(number)])
        for number in range(3):
            items.put(row(100 + number))
        return writer_of(items)


def test_level0_settings_decide_when_writers_are_slowed_and_stopped(tmp_path: Path) -> None:
    assert level0(tmp_path / "few", 4, level0_slowdown=20, level0_stop=30).stalls.slowed == 0
    slowed = level0(tmp_path / "slowed", 4, level0_slowdown=2, level0_stop=30).stalls
    assert slowed.slowed > 0
    assert slowed.stopped == 0
    with pytest.raises(Unavailable, match=r"level 0 has \d+ segments; nothing was written"):
        level0(tmp_path / "stopped", 4, level0_slowdown=2, level0_stop=3)
    level0(tmp_path / "not yet", 4, level0_slowdown=2, level0_stop=30)


def test_how_long_a_writer_waits_is_a_knob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a writer that waits goes on as soon as there is room."""
    lake, items = make(tmp_path / "lake", memtable_bytes=1, memtable_slowdown=1, memtable_stop=1, stall_seconds=1_000)
    with lake:
        keyed = items._keyed_only()
        flush = keyed._flush_all
        with monkeypatch.context() as patch:
            patch.setattr(keyed, "_flush_all", lambda writer: None)
            items.put(row(1))
        assert writer_of(items).is_crowded
        monkeypatch.setattr(keyed, "_flush_all", flush)
        items.put(row(2))
        assert writer_of(items).stalls.stopped == 1
        check_flushed(lake, items, {1: row(1), 2: row(2)})
    with pytest.raises(AssertionError, match="nothing held"):
        knobs = {"memtable_slowdown": 60, "memtable_stop": 60, "level0_slowdown": 60, "level0_stop": 60}
        until_held_up(tmp_path / "patient", monkeypatch, **knobs)


# Sync modes


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each sync of a log."""
    seen: list[int] = []
    real = log_file._sync

    def count(fd: int) -> None:
        real(fd)
        seen.append(fd)

    monkeypatch.setattr(log_file, "_sync", count)
    return seen


def test_always_syncs_every_write_before_it_is_acknowledged(tmp_path: Path, syncs: list[int]) -> None:
    lake, items = make(tmp_path / "lake", log_sync="always")
    with lake:
        for number, write in enumerate(
            (
                lambda: items.put(row(1)),
                lambda: items.put_batch(rows(2, 5)),
                lambda: items.delete(3),
                lambda: items.delete_batch([4, 5]),
            ),
            1,
        ):
            write()
            assert len(syncs) == number


def test_never_syncs_no_write(tmp_path: Path, syncs: list[int]) -> None:
    lake, items = make(tmp_path / "lake", log_sync="never")
    with lake:
        for number in range(100):
            items.put(row(number))
        items.put_batch(rows(200, 50))
        items.delete(7)
        items.flush()
        assert syncs == []


def test_interval_syncs_writes_together_and_soon(tmp_path: Path, syncs: list[int]) -> None:
    lake, items = make(tmp_path / "far", log_sync="interval", log_interval=1_000.0)
    with lake:
        for number in range(100):
            items.put(row(number))
        assert syncs == []
    lake, items = make(tmp_path / "near", log_sync="interval", log_interval=0.02)
    with lake:
        items.put(row(1))
        end = time.monotonic() + 60
        while not syncs and time.monotonic() < end:
            time.sleep(0.01)
        assert syncs, "nobody asked for it"


@pytest.mark.parametrize(("sync", "stored"), [("always", 5), ("interval", 0), ("never", 0)])
def test_single_puts_into_a_log_in_a_store_are_stored_as_the_sync_mode_says(
    tmp_path: Path, sync: str, stored: int
) -> None:
    """With `always` each is an object by the time it is acknowledged; otherwise a batch or a flush takes them along."""
    lake, items = make(tmp_path / "lake", log_sync=sync, log_folder="store", log_interval=1_000.0)
    with lake:
        items.put(row(0))
        items.flush()

        def objects() -> int:
            return sum(1 for _ in lake.store.list(paths.log_prefix(items.id, 0)))

        items.put_batch(rows(1, 2))
        before = objects()
        for number in range(5):
            items.put(row(10 + number))
        assert objects() - before == stored
        items.put_batch(rows(20, 2))
        assert objects() - before >= 1, "a batch is there when it is acknowledged"


# Disks


class Disk:
    """A file system of its own, of a few megabytes."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"
        self._mount("-t", "tmpfs", "-o", f"size={size}", "moulin-test", str(folder))

    def read_only(self, on: bool) -> None:
        self._mount("-o", f"remount,{'ro' if on else 'rw'}", str(self.folder))

    def leave(self, room: int) -> None:
        """Fill the disk up, but for so many bytes."""
        status = os.statvfs(self.folder)
        self._ballast.write_bytes(bytes(status.f_bavail * status.f_frsize - room))

    def make_room(self) -> None:
        self._ballast.unlink()

    def close(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.umount2(os.fsencode(self.folder), 2) == 0, os.strerror(ctypes.get_errno())  # 2: when nobody is left

    @staticmethod
    def _mount(*arguments: str) -> None:
        run = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
        if run.returncode:
            pytest.skip(f"this test mounts a small file system, which is not allowed here: {run.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = Disk(folder, 24 << 20)
    yield disk
    disk.close()


NAMES = [("id", "long", False), ("name", "string")]


@pytest.mark.parametrize("sync", ["always", "interval", "never"])
def test_a_full_disk_under_the_log_is_an_error_and_loses_nothing_acknowledged(
    tmp_path: Path, disk: Disk, sync: str
) -> None:
    """The writer is told so with an error, and not with a signal; what it had acknowledged is there."""
    settings = {"log_folder": str(disk.folder), "log_sync": sync, "memtable_bytes": 1 << 30, **QUIET}
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        lake.create_table("shop.names", NAMES, primary_key=["id"])
    with OtherProcess({"uri": tmp_path / "lake"}, "shop.names", **settings) as writer:
        writer.call("put", {"id": 0, "name": "first"})
        disk.leave(2_500_000)
        count, kind, text = writer.call("fill", 1)
        assert kind == "Unavailable"
        assert "No space left" in text
        assert "open the table again: acknowledged writes are kept" in text
        assert count > 2_000
        assert writer.call("get", count) is not None
        assert writer.call("get", count + 1) is None
        with pytest.raises(Unavailable):
            writer.call("put", {"id": -1, "name": "late"})
    disk.make_room()
    with Lake.open(tmp_path / "lake", settings=settings) as lake:
        names = lake.table("shop.names")
        names.put({"id": -2, "name": "again"})
        found = sorted(names.scan(columns=["id"]).to_arrow().column("id").to_pylist())
        assert found in ([-2, *range(count + 1)], [-2, *range(count + 2)]), "the refused one may be there or not"
        names.flush()
        assert names.at(version=lake.version).scan().count() == len(found)


def test_a_lake_on_a_full_disk_goes_on_when_there_is_room_again(disk: Disk) -> None:
    """Flushes fail, then the log; when there is room again, everything goes on."""
    root = disk.folder / "lake"
    settings = {"log_sync": "never", "memtable_bytes": 200_000, "memtable_stop": 2, "stall_seconds": 2.0, **QUIET}
    with Lake.open(root) as lake:
        lake.create_database("shop")
        lake.create_table("shop.names", NAMES, primary_key=["id"])
    with OtherProcess({"uri": root}, "shop.names", **settings) as writer:
        writer.call("put", {"id": 0, "name": "first"})
        disk.leave(1_500_000)
        count, kind, text = writer.call("fill", 1)
        assert kind == "Unavailable", text
    disk.make_room()
    with Lake.open(root, settings=settings) as lake:
        names = lake.table("shop.names")
        names.put({"id": -2, "name": "again"})
        found = sorted(names.scan(columns=["id"]).to_arrow().column("id").to_pylist())
        assert found in ([-2, *range(count + 1)], [-2, *range(count + 2)])
        names.flush()
        assert names.at(version=lake.version).scan().count() == len(found)


def test_a_log_on_a_disk_that_cannot_be_written_can_still_be_read(tmp_path: Path, disk: Disk) -> None:
    settings = {"log_folder": str(disk.folder / "logs"), **QUIET}
    make(tmp_path / "lake")[0].close()
    with OtherProcess({"uri": tmp_path / "lake"}, "shop.items", **settings) as writer:
        writer.call("put_batch", rows(0, 5))  # and then it dies
    disk.read_only(True)
    with Lake.open(tmp_path / "lake", settings=settings) as lake:
        items = lake.table("shop.items")
        for call in (lambda: items.put(row(9)), lambda: items.append([row(9)]), lambda: items.delete(1)):
            with pytest.raises(FailedPrecondition, match=r"Read-only file system.*make its folder writable"):
                call()
        assert items.scan().count() == 5, "reads go on, with what the log holds"
        assert items.get(3) == row(3)
    disk.read_only(False)
    with Lake.open(tmp_path / "lake", settings=settings) as lake:
        items = lake.table("shop.items")
        items.put(row(9))
        check_flushed(lake, items, {n: row(n) for n in (*range(5), 9)})


LIMITS = [(stop, memtables, flushes) for stop in (1, 2, 5) for memtables in (1, 8) for flushes in (False, True)]


@pytest.mark.parametrize(("stop", "memtables", "flushes"), LIMITS)
def test_level0_never_grows_beyond_where_writers_stop(tmp_path: Path, stop: int, memtables: int, flushes: bool) -> None:
    """However many memtables wait, and however often a user flushes; compaction lets writers go on."""
    settings = {
        "memtable_bytes": 300,
        "memtable_stop": memtables,
        "memtable_slowdown": memtables,
        "level0_stop": stop,
        "level0_slowdown": stop,
        "stall_seconds": 0.01,
        "merge_background": "off",
    }
    with Lake.open(tmp_path / "lake", settings=settings) as lake:
        lake.create_database("shop")
        items = lake.create_table("shop.items", ITEMS, primary_key=["id"])

        def level0() -> int:
            return sum(s.facts.level == 0 for s in lake.catalog.segments(items.id, lake.version, with_columns=False))

        written = 0
        for _ in range(2):
            while True:  # writers may have to wait for memtables first; a flush helps against that
                try:
                    items.put(row(written))
                    written += 1
                    if flushes:
                        items.flush()
                except Unavailable:
                    items.flush()
                    if level0() == stop:
                        break
                assert level0() <= stop
            assert items.scan().count() == written
            items.compact(everything=True)
            assert level0() == 0
