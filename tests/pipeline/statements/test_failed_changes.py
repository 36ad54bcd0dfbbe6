"""Statements that fail, are cancelled or die in the middle: no version, no row, and no file that stays."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import moulin
from moulin import Lake, Table
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.errors import InvalidInput, MoulinError, Unavailable
from tests.commands import Command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_COLUMNS = [("id", "long", False), ("n", "long"), ("name", "string")]
_SLEEP = "length(java_method('java.lang.Thread', 'sleep', 20L))"


@pytest.fixture(params=["event", "regions", "few"])
def table(request: pytest.FixtureRequest, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table with two segments, whose rows tasks of their own write, or the driver."""
    if request.param != "few":
        monkeypatch.setattr("moulin.pipeline.write.writer.HELD_BYTES", 0)
        monkeypatch.setattr("moulin.pipeline.read.few.FEW_ROWS", 0)
    made = lake.create_table(
        "shop.t",
        _COLUMNS,
        primary_key=["id"] if request.param == "regions" else [],
        properties={"moulin.regions": "bucket(2, id)"} if request.param == "regions" else {},
    )
    for first in (0, 500):
        made.append([{"id": number, "n": number, "name": f"n{number}"} for number in range(first, first + 500)])
    return made


def _files(root: Path) -> set[Path]:
    return set(root.rglob("*.parquet"))


def _check_untouched(root: Path, version: int, files: set[Path]) -> None:
    """Nothing was committed, and what was written goes with the next clean-up. REQUIRES: the lake is closed."""
    with moulin.connect(root) as lake:
        table = lake.table("shop.t")
        assert table.version == version
        rows = sorted((row["id"], row["n"]) for row in table.scan(["id", "n"]).to_pylist())
        assert rows == [(number, number) for number in range(1000)]
        assert check(lake.catalog) == []
        collect(lake.catalog, orphan_grace=0)
        assert _files(root) == files


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("update shop.t set n = 1 div (id - 777)", "by zero"),
        ("delete from shop.t where id < 900 and 1 div (id - 777) = 5", "by zero"),
        ("insert into shop.t select id + 1000, n div (id - 777), name from shop.t", "by zero"),
        ("insert overwrite shop.t select id, n div (id - 777), name from shop.t", "by zero"),
        ("insert into shop.t replace where id < 5 select id + 2000, n div (id - 777), name from shop.t", "by zero"),
        ("update shop.t set name = case when id < 900 then 'x' else raise_error('not this one') end", "not this one"),
        (
            "merge into shop.t using shop.t s on t.id = s.id when matched and s.id < 900 then update set "
            "n = cast(s.name as bigint) when not matched by source then delete",
            "n0|BIGINT",
        ),
        (
            "merge into shop.t using (select id % 600 as id, n from shop.t) s on t.id = s.id when matched then update "
            "set n = s.n",
            "More than one source row",
        ),
        (
            "merge into shop.t using (select id + 500 as id from shop.t) s on t.id = s.id - 1 when matched then delete "
            "when not matched then insert (id, n) values (cast(raise_error('never') as bigint), 1)",
            "never",
        ),
    ],
)
def test_a_statement_that_fails_in_a_task_leaves_nothing(
    lake: Lake, table: Table, tmp_path: Path, text: str, message: str
) -> None:
    version, files = table.version, _files(tmp_path)
    with pytest.raises(InvalidInput, match=message) as refused:
        lake.sql(text)
    assert "\n" not in str(refused.value)
    lake.close()
    _check_untouched(tmp_path / "lake", version, files)


@pytest.mark.sample(1)
def test_a_cancelled_statement_commits_nothing(lake: Lake, table: Table, spark: SparkSession, tmp_path: Path) -> None:
    version, files = table.version, _files(tmp_path)
    ended = threading.Event()

    def cancel() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not ended.is_set():
            if any(
                (info := tracker.getStageInfo(stage)) is not None and info.numActiveTasks
                for stage in tracker.getActiveStageIds()
            ):
                spark.sparkContext.cancelAllJobs()
            time.sleep(0.01)

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        with pytest.raises(Unavailable, match="cancelled"):
            lake.sql(f"update shop.t set n = coalesce({_SLEEP}, 5)")
    finally:
        ended.set()
        thread.join()
    lake.close()
    _check_untouched(tmp_path / "lake", version, files)


def test_a_writer_goes_on_after_a_statement_that_failed(lake: Lake, table: Table) -> None:
    """What the statement held, such as the regions of a keyed table, is free again."""
    with pytest.raises(MoulinError):
        lake.sql("update shop.t set n = 1 div (id - 777)")
    table.append([{"id": 5000, "n": 1, "name": "x"}])
    other = lake.table("shop.t")
    other.delete_where("id = 5000")
    assert table.scan().count() == 1000


@pytest.mark.crash
@pytest.mark.long
@pytest.mark.parametrize("key", [[], ["id"]])
def test_a_killed_process_leaves_the_table_as_it_was(tmp_path: Path, key: list[str]) -> None:
    root = tmp_path / "lake"
    with moulin.connect(root) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", _COLUMNS, primary_key=key)
        for first in range(0, 1000, 250):
            table.append([{"id": n, "n": n, "name": "x" * 20_000} for n in range(first, first + 250)])
        version, files = table.version, _files(root)
    slow = f"case when id < 750 then -n else coalesce({_SLEEP}, 0) end"
    with Command("--lake", str(root), "sql", f"update shop.t set n = {slow}, name = name || 'y'") as process:
        process.wait_until(lambda: _files(root) - files, 120)  # a task has written; another one sleeps
        process.kill()
    _check_untouched(root, version, files)
    with moulin.connect(root) as lake:
        table = lake.table("shop.t")
        table.append([{"id": 1000, "n": 0, "name": ""}])
        assert table.scan().count() == 1001
