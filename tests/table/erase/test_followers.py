"""Mirrors, replicas, engines and changes under way, when rows are erased."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep import erasures
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.config import Config
from moulin.errors import Conflict, Erased, MoulinError
from moulin.lake import Lake
from moulin.mirror import Mirror
from moulin.storage.store import open_store
from moulin.table.erase import erase as erasing
from moulin.table.table import Table
from tests.commands import fork
from tests.table.erase.planting import ORDERS, WHERE, history, holding, order, rows_of, secret, without_secret
from tests.table.erase.test_erase import plant_events, unchanged


@pytest.fixture
def lake(tmp_path: Path) -> Any:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        yield lake


def test_a_mirror_takes_an_erase_over(lake: Lake, tmp_path: Path) -> None:
    target = str(tmp_path / "mirror")
    plant_events(lake)
    mirror = Mirror(lake, target)
    mirror.run_once()
    assert holding(mirror.target) != []
    replica = moulin.connect(target, read_only=True)
    before = history(lake, ["shop.events"])
    lake.table("shop.events").erase(WHERE)
    lake.table("shop.events").append([order(900)])
    mirror.run_once()
    assert holding(open_store(target)) == []
    replica.refresh()
    assert history(replica, ["shop.events"]) == history(lake, ["shop.events"])
    unchanged(replica, ["shop.events"], before)
    assert mirror.run_once().objects == 0
    assert Mirror(lake, target).run_once().objects == 0
    replica.close()


@pytest.mark.long
def test_a_mirror_that_was_not_running_takes_an_erase_over_later(lake: Lake, tmp_path: Path) -> None:
    target = str(tmp_path / "mirror")
    plant_events(lake)
    Mirror(lake, target).run_once()
    lake.table("shop.events").erase(WHERE)
    Mirror(lake, target).run_once()
    assert holding(open_store(target)) == []


def test_a_replica_rebuilds(lake: Lake, tmp_path: Path) -> None:
    plant_events(lake)
    with moulin.connect(tmp_path / "lake", read_only=True) as replica:
        assert rows_of(replica.table("shop.events"))
        lake.table("shop.events").erase(WHERE)
        replica.refresh()
        assert history(replica, ["shop.events"]) == history(lake, ["shop.events"])


def test_a_read_under_way_is_told_to_read_again(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("shop.t", ORDERS)
    for first in range(0, 4000, 1000):
        table.append([secret(first), *(order(n) for n in range(first + 1, first + 1000))])
    with moulin.connect(tmp_path / "lake", scan_batch_rows=100, scan_ahead_bytes=1) as reader:
        batches = reader.table("shop.t").scan().to_batches()
        next(batches)
        table.erase(WHERE)
        with pytest.raises(Erased):
            for _ in batches:
                pass
        assert rows_of(reader.table("shop.t")).keys() == {n for n in range(4000) if n % 1000}


def stopped_at(monkeypatch: pytest.MonkeyPatch, lake: Lake, name: str) -> None:
    """Run an erase just before the next commit of another change."""
    catalog = lake.own_catalog()
    commit = type(catalog).commit
    done: list[int] = []

    def late(self: Any, changes: Any, **options: Any) -> Any:
        if not done:
            done.append(1)
            lake.table(name).erase(WHERE)
        return commit(self, changes, **options)

    monkeypatch.setattr(type(catalog), "commit", late)


def test_a_compaction_prepared_before_does_not_bring_rows_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("shop.t", ORDERS)
    table.append([secret(1), order(2)])
    table.append([secret(3), order(4)])
    stopped_at(monkeypatch, lake, "shop.t")
    with pytest.raises(Conflict):
        table.compact(everything=True)
    assert rows_of(table).keys() == {2, 4}
    lake.table("shop.t").erase(WHERE)  # what the compaction wrote is nobody's now
    assert holding(lake.store) == []


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda table: table.delete_where("id = 2 or id = 3"), {4}),
        (lambda table: table.update(set={"note": "'new'"}, where="id < 4"), {2, 4}),
        (lambda table: table.append([order(5)]), {2, 4, 5}),
    ],
    ids=["delete", "update", "append"],
)
def test_changes_prepared_before_are_carried_over(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, change: Any, left: set[int]
) -> None:
    table = lake.create_table("shop.t", ORDERS)
    table.append([secret(1), order(2)])
    table.append([secret(3), order(4)])
    stopped_at(monkeypatch, lake, "shop.t")
    change(table)
    assert rows_of(table).keys() == left
    assert not any("zanzibar" in str(row) for row in rows_of(table).values())


def test_an_index_prepared_before_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("shop.t", ORDERS)
    table.append([secret(1), order(2)])
    stopped_at(monkeypatch, lake, "shop.t")
    with pytest.raises(Conflict):
        table.create_index("email")
    assert table.create_index("email") is not None
    assert [row["id"] for row in table.scan(where="email = 'u2@x'").to_pylist()] == [2]


def test_rows_that_come_while_rows_are_looked_for_are_erased_too(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("shop.t", ORDERS)
    table.append([secret(1), order(2)])
    found = erasing.find
    rounds: list[int] = []

    def busy(*arguments: Any) -> Any:
        result = found(*arguments)
        if len(rounds) < 3:
            rounds.append(1)
            table.append([secret(10 + len(rounds)), order(20 + len(rounds))])
            table.compact(everything=True)
        return result

    monkeypatch.setattr(erasing, "find", busy)
    assert table.erase(WHERE).rows >= 4
    assert rows_of(table).keys() == {2, 21, 22, 23}
    assert holding(lake.store) == []


def test_a_feed_over_an_erase_has_the_rows_that_stayed(lake: Lake) -> None:
    table = plant_events(lake)
    start = table.history()[-1].version
    before = table.changes(start).to_pylist()
    table.erase(WHERE)
    after = table.changes(start).to_pylist()
    ids = {line["id"] for line in before} - {100, 102, 104, 106, 108}
    assert {line["id"] for line in after} == ids
    assert len(after) == sum(line["id"] in ids for line in before)


def test_engines_read_what_is_left(lake: Lake) -> None:
    from pyiceberg.table import StaticTable

    from moulin.iceberg.projection.projection import project

    table = plant_events(lake)
    project(lake.context, table.id)
    before = without_secret({"x": rows_of(table)})["x"]
    table.erase(WHERE)
    assert {row[0] for row in lake.duckdb().sql("select id from shop.events").fetchall()} == before.keys()
    made = project(lake.context, table.id)
    assert {*StaticTable.from_metadata(made.location).scan().to_arrow().column("id").to_pylist()} == before.keys()
    version = table.history()[2].version
    old = project(lake.context, table.id, version)
    expected = rows_of(table, version).keys()
    assert {*StaticTable.from_metadata(old.location).scan().to_arrow().column("id").to_pylist()} == expected


STEPS = ("begun", "flushed", "found", "scrubbed", "vectors", "committed", "publish", "manifests", "files", "orphans")


FEW = ("scrubbed", "committed")


def erase_until(folder: str, step: str) -> None:
    """An erase that is killed -9 at a step."""

    def die(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    with moulin.connect(folder) as lake:
        erasing.erase_rows(lake.context, lake.table("shop.events").id, WHERE, die)


@pytest.mark.parametrize(
    "step",
    [step if step in FEW else pytest.param(step, marks=pytest.mark.long) for step in (*STEPS, "vacuum", "done")],
)
def test_an_erase_that_was_killed_anywhere_is_completed_by_the_next(lake: Lake, tmp_path: Path, step: str) -> None:
    table = plant_events(lake)
    table.add_column("copy", "string", from_sql="email")
    before = history(lake, ["shop.events"])
    process = fork(erase_until, str(tmp_path / "lake"), step)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    left = erasures.begun(lake.own_catalog())
    assert len(left) == 1
    done = table.erase(WHERE)
    assert done.complete
    assert done.report["rows"] == 9
    assert erasures.begun(lake.own_catalog()) == []
    assert holding(lake.store) == []
    unchanged(lake, ["shop.events"], before)


def test_two_erases_of_other_rows_at_once(lake: Lake) -> None:
    table = plant_events(lake)
    before = {at: {k: r for k, r in rows.items() if k != 3} for at, rows in history(lake, ["shop.events"]).items()}
    failures: list[MoulinError] = []

    def run(handle: Table, where: str) -> None:
        try:
            handle.erase(where)
        except MoulinError as error:
            failures.append(error)

    wheres = (WHERE, "email = 'u3@x'")
    threads = [threading.Thread(target=run, args=(lake.table("shop.events"), where)) for where in wheres]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert holding(lake.store) == []
    unchanged(lake, ["shop.events"], before)
    assert not [path for path in lake.store.list() if path.path.endswith("parquet") and b"u3@x" in bytes_of(lake, path)]
    assert table.scan(where=WHERE).count() == 0


def bytes_of(lake: Lake, info: Any) -> bytes:
    import io

    import pyarrow.parquet as pq

    return repr(pq.read_table(io.BytesIO(lake.store.get(info.path))).to_pylist()).encode()


def test_an_erase_that_did_not_commit_is_named(lake: Lake) -> None:
    table = lake.create_table("shop.t", ORDERS)
    table.append([secret(1), order(2)])
    erasures.begin(lake.own_catalog(), table.id, "user = ?")
    findings = check(lake.own_catalog())
    assert [finding.rule for finding in findings] == ["an erase that began has committed"]
    table.erase("user = 7741000123456789")
    assert check(lake.own_catalog()) == []


def test_clean_up_finishes_what_a_killed_erase_left(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = plant_events(lake)
    before = history(lake, ["shop.events"])

    def die(name: str) -> None:
        if name == "committed":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        erasing.erase_rows(lake.context, table.id, WHERE, die)
    assert holding(lake.store) != []
    collect(lake.own_catalog())
    assert holding(lake.store) == []
    assert erasures.begun(lake.own_catalog()) == []
    unchanged(lake, ["shop.events"], before)


def test_a_lake_lost_in_the_middle_of_an_erase_recovers_without_the_rows(lake: Lake, tmp_path: Path) -> None:
    table = plant_events(lake)
    before = history(lake, ["shop.events"])

    def die(name: str) -> None:
        if name == "manifests":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        erasing.erase_rows(lake.context, table.id, WHERE, die)
    lake.close()
    (tmp_path / "lake" / "catalog.sqlite").unlink()
    recover(open_store(str(tmp_path / "lake")), f"sqlite:///{tmp_path}/lake/catalog.sqlite", Config())
    with moulin.connect(tmp_path / "lake") as recovered:
        unchanged(recovered, ["shop.events"], before)
        collect(recovered.own_catalog())
        unchanged(recovered, ["shop.events"], before)
        assert holding(recovered.store) == []
        assert check(recovered.own_catalog()) == []


def test_a_branch_publishes_after_an_erase(lake: Lake) -> None:
    plant_events(lake)
    branch = lake.branch("exp", expires="7d")
    branch.table("shop.events").append([secret(500), order(501)])
    branch.table("shop.events").delete_where("id = 1")
    lake.table("shop.events").append([order(600)])
    lake.table("shop.events").erase(WHERE)
    expected = {*rows_of(lake.table("shop.events"))} - {1} | {501}
    lake.publish("exp")
    assert rows_of(lake.table("shop.events")).keys() == expected
    assert lake.table("shop.events").erase(WHERE).rows == 0
    assert holding(lake.store) == []
    assert check(lake.own_catalog()) == []


@pytest.mark.long
def test_rows_that_a_branch_published_are_erased_where_they_lie(lake: Lake) -> None:
    plant_events(lake)
    branch = lake.branch("exp", expires="7d")
    branch.table("shop.events").append([secret(500), order(501)])
    lake.publish("exp")
    before = history(lake, ["shop.events"])
    lake.table("shop.events").erase(WHERE)
    assert holding(lake.store) == []
    unchanged(lake, ["shop.events"], before)
    collect(lake.own_catalog(), history_keep=0, byte_floor=0, orphan_grace=0)
    assert check(lake.own_catalog()) == []


def test_a_compaction_from_before_all_history_does_not_bring_rows_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("shop.t", ORDERS)
    table.append([secret(1), order(2)])
    table.append([secret(3), order(4)])
    erase = Table.erase

    def erase_and_forget(self: Table, where: Any, **options: Any) -> Any:
        done = erase(self, where, **options)
        self.append([order(5)])
        collect(lake.own_catalog(), history_keep=0, byte_floor=0)
        return done

    monkeypatch.setattr(Table, "erase", erase_and_forget)
    stopped_at(monkeypatch, lake, "shop.t")
    with pytest.raises(Conflict):
        table.compact(everything=True)
    assert rows_of(table).keys() == {2, 4, 5}
    assert holding(lake.store) == []


def test_an_adopted_file_is_named_and_left_alone(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("shop.t", ORDERS)
    folder = tmp_path / "theirs"
    folder.mkdir()
    schema = pa.schema([("id", pa.int64()), ("email", pa.string()), ("user", pa.int64()), ("day", pa.int32())])
    rows = [{name: row[name] for name in schema.names} for row in (secret(1), order(2), order(3))]
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / "a.parquet")
    kept = (folder / "a.parquet").read_bytes()
    table.adopt(folder)
    done = table.erase(WHERE)
    assert done.rows == 1
    assert any("a.parquet" in one for one in done.report["unreachable"])
    assert (folder / "a.parquet").read_bytes() == kept
    assert holding(lake.store) == []
    assert rows_of(table).keys() == {2, 3}
    table.compact(everything=True)
    assert rows_of(table).keys() == {2, 3}
    assert check(lake.own_catalog()) == []
