"""kill -9 of server, collector, nursery, worker and janitor at random under load: the invariants of ingest hold.

INV-1: what was acknowledged is there exactly once, each attempt at most once. INV-2: no compaction changes rows. INV-3:
objects go only when they are taken in. INV-4 and INV-5: clean-up takes all that nothing names, and nothing else. INV-6:
that is so after any kill. INV-7: offsets, versions and watermarks never go back. INV-8: nothing is added below a
watermark. INV-9: nothing live points to something dead. INV-10: a database dropped and brought back is the same.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin import Lake
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.ingest.setup import set_up
from moulin.pipeline.nursery.nursery import Nursery
from moulin.storage import open_store, paths
from moulin.table.compact.planner import create_due_tasks
from moulin.table.compact.worker import CompactionWorker
from tests.commands import Command
from tests.crash.fleet import ROLES, Fleet, fleet
from tests.ingest.collector.test_collector_crash import Senders
from tests.pipeline.nursery.test_nursery import bodies

pytestmark = pytest.mark.crash
_PATIENCE = 60.0


@dataclass
class Watch:
    """Looks at the lake again and again: what may only rise must rise (INV-7); watermarks are noted (INV-8)."""

    lake: Lake
    seen: dict[object, int] = field(default_factory=dict)
    watermarks: list[tuple[int, int]] = field(default_factory=list)  # (version, time)

    def look(self) -> None:
        listed = self.lake.own_catalog().ingest.stream_list()
        self._rises("version", listed.version)
        self._rises("answers", listed.response_seq)
        self._rises("complete through", listed.complete_through)
        for stream in listed.streams:
            assert stream.deleted_offset <= stream.merged_offset, "INV-3"
            self._rises((stream.id, "frontier"), stream.frontier)
            self._rises((stream.id, "merged"), stream.merged_offset)
            self._rises((stream.id, "deleted"), stream.deleted_offset)
            for table in stream.tables:
                self._rises((stream.id, table.table_id), table.merged_time)
        open_streams = [stream.known_complete_through for stream in listed.streams if not stream.is_drained]
        mark = min([listed.complete_through, *open_streams])
        self.watermarks.append((listed.version, mark))

    def taken_in(self) -> int:
        return sum(stream.frontier for stream in self.lake.own_catalog().ingest.stream_list().streams)

    def _rises(self, what: object, value: int) -> None:
        assert value >= self.seen.get(what, value), f"INV-7: {what} went from {self.seen[what]} to {value}"
        self.seen[what] = value


def storm(lake: Lake, running: Fleet, token: str, kills: int, seed: int) -> tuple[Senders, Watch]:
    """Kill one after the other, each role as often, while requests flow; then let all requests end well."""
    chance = random.Random(seed)
    senders, watch = Senders(token, target=running.target), Watch(lake)
    threads = senders.start()
    try:
        for turn in range(kills):
            if turn % len(ROLES) == 0:
                order = chance.sample(ROLES, len(ROLES))
            role = order[turn % len(ROLES)]
            _flow(running, senders, watch, 4)
            if role == "nursery":
                _progress(running, watch)
            time.sleep(chance.uniform(0, 0.2))
            running.kill(role)
        _flow(running, senders, watch, 20)
        end = time.monotonic() + _PATIENCE
        while not merges(lake):
            assert time.monotonic() < end, f"nothing is merged:\n{running.said()}"
            _flow(running, senders, watch, 4)
    finally:
        senders.ending = True
        for thread in threads:
            thread.join()
    assert sum(running.kills.values()) >= kills * 0.9, "few had died by themselves"
    assert running.end("collector") == 0
    return senders, watch


def _flow(running: Fleet, senders: Senders, watch: Watch, more: int) -> None:
    """Until so many more requests were acknowledged."""
    wanted, end = len(senders.acknowledged) + more, time.monotonic() + _PATIENCE
    while len(senders.acknowledged) < wanted:
        assert time.monotonic() < end, f"nothing flows:\n{running.said()}"
        running.revive()
        watch.look()
        time.sleep(0.05)


def _progress(running: Fleet, watch: Watch) -> None:
    """Until something more is taken in. A baby segment that nursery after nursery dies of is rightly set aside."""
    before, end = watch.taken_in(), time.monotonic() + _PATIENCE
    while watch.taken_in() == before:
        assert time.monotonic() < end, f"nothing is taken in:\n{running.said()}"
        running.revive()
        time.sleep(0.02)


def merges(lake: Lake) -> list[int]:
    return [info.version for info in lake.table("otel.logs").history() if info.kind == "merge"]


def settle(lake: Lake) -> None:
    """What the fleet would do in time: all is taken in, all compactions are planned and done."""
    Nursery(lake, spark=False).drain()
    create_due_tasks(lake.context, lake.table("otel.logs").state().id)
    worker = CompactionWorker(lake.context, "the last")
    while worker.run_once() is not None:
        pass


def verify(lake: Lake, senders: Senders, watch: Watch) -> None:
    catalog, table = lake.own_catalog(), lake.table("otel.logs")
    found = bodies(lake)
    assert [stamp for stamp in senders.acknowledged if found[stamp] != 1] == [], "INV-1"
    assert max(found.values()) == 1, "INV-1: no attempt twice"
    assert sum(found.values()) <= senders.attempts
    merged = merges(lake)
    for version in random.Random(1).sample(merged, min(3, len(merged))):
        before, after = (
            Counter(table.scan(columns=["body"], version=at).to_arrow()["body"].to_pylist())
            for at in (version - 1, version)
        )
        assert before == after, "INV-2"
    _no_gaps(lake)
    _nothing_below_a_watermark(lake, watch)
    collect(catalog, history_keep=0, orphan_grace=0, byte_floor=0)
    collect(catalog, history_keep=0, orphan_grace=0, byte_floor=0)
    assert check(catalog) == [], "INV-4, INV-9: all that the catalog names is there"
    again = collect(catalog, history_keep=0, orphan_grace=0, byte_floor=0)
    assert again.deleted == [], "INV-5: nothing else is left"
    assert bodies(lake) == found, "INV-4"
    lake.drop_database("otel", cascade=True)
    lake.resurrect_database("otel")
    assert bodies(lake) == found, "INV-10"


def _no_gaps(lake: Lake) -> None:
    """INV-3: of each stream, everything is there that is not taken in; what was taken in went in order.

    A nursery that is killed between deleting objects and reporting it leaves the report to the next trim.
    """
    for stream in lake.own_catalog().ingest.stream_list().streams:
        names = (paths.parse_baby_segment(info.path) for info in lake.store.list(paths.stream_prefix(stream.id)))
        offsets = sorted(found[1] for found in names if found is not None)
        left = [offset for offset in offsets if offset > stream.deleted_offset]
        if left:
            assert left == list(range(left[0], left[0] + len(left))), "INV-3"
            assert left[0] - 1 <= stream.merged_offset, "INV-3: what is gone was merged"
            assert left[-1] >= stream.frontier, "INV-3"


def _nothing_below_a_watermark(lake: Lake, watch: Watch) -> None:
    times = _ingest_nanos(lake, None)
    for version, mark in random.Random(2).sample(watch.watermarks, min(10, len(watch.watermarks))):
        assert (times <= mark).sum() == (_ingest_nanos(lake, version) <= mark).sum(), "INV-8"


def _ingest_nanos(lake: Lake, version: int | None) -> Any:
    found = lake.table("otel.logs").scan(columns=["ingest_time"], version=version).to_arrow()["ingest_time"]
    return found.cast("int64").to_numpy() * 1000  # whole seconds, in microseconds


@pytest.mark.parametrize("kills", [10, pytest.param(250, marks=pytest.mark.long)])
def test_a_storm_of_kills_loses_nothing_on_sqlite_and_a_folder(tmp_path: Path, kills: int) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        with fleet(["--lake", str(tmp_path / "lake")], [], tmp_path / "logs") as running:
            senders, watch = storm(lake, running, token, kills, seed=kills)
        settle(lake)
        verify(lake, senders, watch)


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.long)])
def test_an_older_catalog_put_back_in_a_storm_is_refused_and_recovery_saves_all(tmp_path: Path, rounds: int) -> None:
    """Everything dies, and an older copy of the catalog is put back: nobody starts with it, and recovery saves all."""
    folder, chance = tmp_path / "lake", random.Random(rounds)
    with moulin.connect(folder) as lake:
        token = set_up(lake).token
    assert token is not None
    with fleet(["--lake", str(folder)], [], tmp_path / "logs") as running:
        senders = Senders(token, target=running.target)
        threads = senders.start()
        try:
            for _ in range(rounds):
                older = _copy_in_the_storm(folder, running, senders, chance)
                running.stop()
                _put_back_and_recover(folder, older, running)
                running.start_all()
            with moulin.connect(folder) as lake:
                watch = Watch(lake)
                _flow(running, senders, watch, 20)
        finally:
            senders.ending = True
            for thread in threads:
                thread.join()
        assert running.end("collector") == 0
    with moulin.connect(folder) as lake:
        settle(lake)
        verify(lake, senders, watch=Watch(lake))


def _copy_in_the_storm(folder: Path, running: Fleet, senders: Senders, chance: random.Random) -> Path:
    """A copy of the catalog from some moment; when it is given back, the lake has gone on."""
    copy = folder.parent / "older.sqlite"
    copy.unlink(missing_ok=True)
    with moulin.connect(folder) as lake:
        watch = Watch(lake)
        _flow(running, senders, watch, 8)
        with sqlite3.connect(folder / "catalog.sqlite") as source, sqlite3.connect(copy) as target:
            source.backup(target)
        source.close()
        target.close()
        published = lake.own_catalog().published_version()
        running.kill(chance.choice(ROLES))
        end = time.monotonic() + _PATIENCE
        while lake.own_catalog().published_version() < published + 3:
            assert time.monotonic() < end, f"nothing is committed:\n{running.said()}"
            _flow(running, senders, watch, 4)
        time.sleep(chance.uniform(0, 0.2))
    return copy


def _put_back_and_recover(folder: Path, older: Path, running: Fleet) -> None:
    def lose() -> None:
        for file in folder.glob("catalog.sqlite*"):
            file.unlink()

    lose()
    shutil.copy(older, folder / "catalog.sqlite")
    before = {info.path for info in open_store(folder).list()}
    for role in ("server", "nursery"):
        assert "went back in time" in running.refused(role)
    beside = {f"catalog.sqlite{end}" for end in ("", "-wal", "-shm")}
    assert {info.path for info in open_store(folder).list()} - before <= beside, "and nothing was written"
    lose()
    with Command("--lake", str(folder), "recover", "--json") as recovery:
        assert recovery.wait() == 0, recovery.said()


@pytest.mark.postgres
@pytest.mark.s3
@pytest.mark.parametrize("kills", [10, pytest.param(250, marks=pytest.mark.long)])
def test_a_storm_of_kills_loses_nothing_on_postgresql_and_s3(
    tmp_path: Path, postgres_url: str, s3_url: str, s3_options: dict[str, str], kills: int
) -> None:
    options = [word for key, value in s3_options.items() for word in ("--storage-option", f"{key}={value}")]
    with moulin.connect(postgres_url, storage=s3_url, storage_options=s3_options) as lake:
        token = set_up(lake).token
        assert token is not None
        arguments = ["--lake", postgres_url, "--storage", s3_url]
        with fleet(arguments, options, tmp_path / "logs") as running:
            senders, watch = storm(lake, running, token, kills, seed=kills + 1)
        settle(lake)
        verify(lake, senders, watch)
