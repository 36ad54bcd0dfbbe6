"""Keyed tables on Spark: bulk upserts, merges and streams by key, and what puts do meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest

from moulin import Lake, Table
from moulin.errors import FailedPrecondition, InvalidInput, Unavailable
from moulin.pipeline.source import stream_writer, table_source
from moulin.pipeline.source.datasource import MoulinSource
from moulin.pipeline.source.stream_writer import StreamTableWriter
from moulin.pipeline.source.table_source import TableSourceWriter
from moulin.pipeline.write import writer
from moulin.storage import paths
from moulin.table.bulk import drafts
from moulin.table.bulk.runs import RelocateSlice
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.ports import FrameKernel, P, R
from moulin.table.runner import S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = [("id", "long", False), ("part", "string"), ("v", "string"), ("n", "int")]
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "split": {"partition_by": ["part"], "properties": {"moulin.regions": "bucket(2, id)"}},
}
Model = dict[int, dict[str, Any]]


@pytest.fixture(autouse=True)
def every_task_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few its rows are: runs of several tasks must go together."""
    monkeypatch.setattr(writer, "HELD_BYTES", 0)


@pytest.fixture(params=list(SHAPES))
def table(request: pytest.FixtureRequest, lake: Lake) -> Table:
    return lake.create_table("shop.t", COLUMNS, primary_key=["id"], **SHAPES[request.param])


@pytest.fixture
def split(lake: Lake) -> Table:
    return lake.create_table("shop.t", COLUMNS, primary_key=["id"], **SHAPES["split"])


@pytest.fixture
def plain(lake: Lake) -> Table:
    return lake.create_table("shop.t", COLUMNS, primary_key=["id"])


def row(key: int, v: str, n: int | None = None) -> dict[str, Any]:
    return {"id": key, "part": f"{v[:1]}{key % 2}", "v": v, "n": key if n is None else n}


def frame(spark: SparkSession, rows: Sequence[dict[str, Any]], parts: int = 2) -> DataFrame:
    schema = "id long, part string, v string, n int"
    return spark.createDataFrame([tuple(r.values()) for r in rows], schema).repartition(parts)


def check(lake: Lake, table: Table, model: Model) -> None:
    """Every reader sees exactly the rows of the model."""
    expected = [model[key] for key in sorted(model)]
    assert table.scan(ordered=True).to_arrow().to_pylist() == expected
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda r: r["id"]) == expected
    name = table.name
    assert [r.asDict() for r in lake.sql(f"select * from {name} order by id").collect()] == expected
    assert table.get_many([-1, *model]) == [None, *model.values()]


def row_ids(table: Table) -> dict[int, int]:
    return {r["id"]: r["_row_id"] for r in table.scan(columns=["id", "_row_id"]).to_pylist()}


def upserted(model: Model, rows: Sequence[dict[str, Any]]) -> None:
    model.update({r["id"]: r for r in rows})


class Meanwhile:
    """Does something after the tasks of a bulk write have run and before it commits."""

    def __init__(self, lake: Lake) -> None:
        self.action = lambda: None
        spark = lake.context.spark()
        self._map_frame = spark.map_frame
        spark.map_frame = self._then_act  # type: ignore[method-assign]

    def _then_act(self, kernel: FrameKernel[P, R], plan: P, given: Any) -> Sequence[R]:
        results = self._map_frame(kernel, plan, given)
        action, self.action = self.action, lambda: None
        action()
        return results


def test_every_kind_of_change_equals_a_plain_model(lake: Lake, table: Table, spark: SparkSession) -> None:
    model: Model = {}
    first = [row(n, "a") for n in range(0, 40, 2)]
    table.put_batch(first[:5])
    upserted(model, first)
    done = table.append(frame(spark, first))
    assert (done.rows_added, done.rows_updated) == (15, 5), "what was put was flushed and located"
    check(lake, table, model)
    ids = row_ids(table)
    second = [row(n, "b") for n in range(10, 30)]
    version = lake.version
    done = table.append(frame(spark, second, parts=3))
    assert (done.version, done.rows_added, done.rows_updated) == (version + 1, 10, 10)
    upserted(model, second)
    check(lake, table, model)
    assert {key: row_ids(table)[key] for key in ids} == ids, "updated rows keep their ids"
    changes = table.changes(version).to_arrow().column("_change_type").to_pylist()
    assert {kind: changes.count(kind) for kind in set(changes)} == {
        "insert": 10, "update_before": 10, "update_after": 10
    }  # fmt: skip
    table.delete(12)
    table.put(row(13, "put"))
    model.pop(12)
    upserted(model, [row(13, "put")])
    assert table.delete_where("v = 'a' and n >= 30").rows_deleted == 5
    for key in [key for key, r in model.items() if r["v"] == "a" and key >= 30]:
        model.pop(key)
    check(lake, table, model)
    table.compact(everything=True)
    check(lake, table, model)
    again = [row(12, "c"), row(13, "c"), row(99, "c")]
    done = table.append(frame(spark, again))
    assert (done.rows_added, done.rows_updated) == (2, 1)
    upserted(model, again)
    check(lake, table, model)
    done = table.overwrite(frame(spark, [row(0, "d"), row(500, "d")]), where="v = 'b'")
    model = {key: r for key, r in model.items() if r["v"] != "b"}
    upserted(model, [row(0, "d"), row(500, "d")])
    check(lake, table, model)
    before = len(model)
    done = table.overwrite(frame(spark, [row(n, "e") for n in range(4)]))
    assert (done.rows_added, done.rows_deleted) == (4, before)
    model = {n: row(n, "e") for n in range(4)}
    check(lake, table, model)


def test_puts_that_land_while_a_frame_is_written_count_as_older(lake: Lake, table: Table, spark: SparkSession) -> None:
    model = {n: row(n, "a") for n in range(20)}
    table.append([*model.values()])
    rows = [row(n, "b") for n in range(10, 30)]
    meanwhile = Meanwhile(lake)

    def act() -> None:
        table.put_batch([row(12, "p"), row(25, "p"), row(2, "p"), row(77, "p")])
        table.delete_batch([11, 5])
        table.flush()
        table.compact(everything=True)
        table.put(row(26, "q"))

    meanwhile.action = act
    done = table.append(frame(spark, rows))
    upserted(model, [row(2, "p"), row(77, "p"), *rows])
    model.pop(5)
    check(lake, table, model)
    assert (done.rows_added, done.rows_updated) == (9, 11), "11 was deleted, 25 and 26 were put meanwhile"
    before = {r["id"]: r["_row_id"] for r in table.at(done.version - 1).scan(columns=["id", "_row_id"]).to_pylist()}
    after = row_ids(table)
    assert {key: after[key] for key in before} == before, "rows that were put meanwhile keep their ids too"
    assert len(set(after.values())) == len(after)


def test_a_compaction_of_segments_meanwhile_writes_no_run_again(
    lake: Lake, plain: Table, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.append([row(n, "a") for n in range(20)])
    plain.append([row(n, "a") for n in range(20, 40)])
    seen: list[object] = []
    runner = lake.context.spark().runner()
    assert runner is not None

    class Watched:
        def map(self, kernel: Callable[[S], R], slices: Sequence[S], **options: Any) -> Iterable[R]:
            seen.extend(slices)
            return runner.map(kernel, slices, **options)

    monkeypatch.setattr(lake.context.spark(), "runner", Watched)
    Meanwhile(lake).action = lambda: plain.compact(everything=True)
    rows = [row(n, "b") for n in range(30, 50)]
    assert plain.append(frame(spark, rows, parts=1)).rows_updated == 10
    (work,) = (work for work in seen if isinstance(work, RelocateSlice))
    assert {s.facts.path for s in lake.catalog.segments(plain.id, lake.version)} >= {work.run.path}
    check(lake, plain, {**{n: row(n, "a") for n in range(40)}, **{r["id"]: r for r in rows}})


def test_puts_go_on_in_another_thread(lake: Lake, table: Table, spark: SparkSession) -> None:
    """Every put that was acknowledged is there, unless the bulk write that came later has its key."""
    stop, put = threading.Event(), []

    def write() -> None:
        while not stop.is_set():
            key = 1000 + len(put)
            table.put(row(key, "p"))
            table.put(row(key % 10, "shared"))
            put.append(key)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for n in range(3):
            table.append(frame(spark, [row(key, f"f{n}") for key in range(5, 40)]))
    finally:
        stop.set()
        thread.join()
    found = {r["id"]: r["v"] for r in table.scan().to_pylist()}
    assert len(put) > 0
    assert set(found) == {*put, *range(5, 40), *(key % 10 for key in put)}
    assert {key: found[key] for key in range(10, 40)} == dict.fromkeys(range(10, 40), "f2")
    assert {found[key] for key in put} == {"p"}
    assert table.to_spark().count() == len(found)


def test_two_bulk_writes_of_one_new_key_make_one_row(lake: Lake, split: Table, spark: SparkSession) -> None:
    threads = [
        threading.Thread(target=split.append, args=(frame(spark, [row(key, name) for key in range(8)]),))
        for name in ("x", "y")
    ]
    threads.append(threading.Thread(target=split.append, args=([row(key, "z") for key in range(8)],)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = split.scan(ordered=True).to_arrow()
    assert found.column("id").to_pylist() == list(range(8))
    assert len(set(found.column("v").to_pylist())) == 1


def test_a_key_that_comes_twice_is_refused(lake: Lake, plain: Table, spark: SparkSession) -> None:
    plain.append([row(1, "old")])
    twice = [row(n, "a") for n in (1, 2, 3)] + [row(n, "b") for n in (3, 1, 4)]
    version = lake.version
    for parts in (1, 3):
        with pytest.raises(InvalidInput, match=r"The key [13] appears more than once.*dropDuplicates\(\['id'\]\)"):
            plain.append(frame(spark, twice, parts))
        with pytest.raises(InvalidInput, match=r"The key [13] appears more than once"):
            plain.merge(frame(spark, twice, parts), when_matched_if="source.n > 0")
    both = spark.range(1, 2).union(spark.range(1, 2))
    with pytest.raises(InvalidInput, match="The key 1 appears more than once"):
        plain.merge(both, when_matched="delete", when_not_matched=None)
    with pytest.raises(InvalidInput, match="The key 1 appears more than once"):
        plain.merge([row(1, "a"), row(1, "b")])
    assert lake.version == version


@pytest.mark.parametrize("held", [0, writer.HELD_BYTES])
def test_the_last_of_equal_keys_counts_when_asked_for(
    lake: Lake, plain: Table, spark: SparkSession, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "HELD_BYTES", held)
    plain.append([row(1, "old"), row(9, "old")])
    ids = row_ids(plain)
    made = source_writer(lake, spark, duplicates="last")
    first = written(made, 0, [row(n, "a") for n in (1, 2, 3, 3)])
    made.commit([first, None, written(made, 2, [row(n, "b") for n in (3, 1, 4, 4)])])
    check(lake, plain, {9: row(9, "old"), 2: row(2, "a"), **{n: row(n, "b") for n in (1, 3, 4)}})
    assert row_ids(plain)[1] == ids[1]
    assert plain.stats().rows == 5


def test_equal_keys_of_tasks_are_found_slice_by_slice(
    lake: Lake, plain: Table, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "_CHECKED_BYTES", 1 << 30)  # slices have as few keys as they may
    monkeypatch.setattr(drafts, "_LEAST_CHECKED", 4096)
    found, slices = drafts.find_duplicates, []
    monkeypatch.setattr(drafts, "find_duplicates", lambda work: slices.append(work) or found(work))
    made, chance = source_writer(lake, spark, duplicates="last"), Random(7)
    parts = [[row(key, name) for key in chance.sample(range(20_000), 9000)] for name in "abc"]
    made.commit([written(made, task, rows) for task, rows in enumerate(parts)])
    assert len(slices) > 2
    assert {one["id"]: one["v"] for one in plain.scan().to_pylist()} == {
        one["id"]: one["v"] for rows in parts for one in rows
    }


def source_writer(lake: Lake, spark: SparkSession, name: str = "shop.t", overwrite: bool = False, **more: str) -> Any:
    options = {"lake": lake.uri, "path": name, **more}
    return MoulinSource(options).writer(frame(spark, []).schema, overwrite)


def written(made: TableSourceWriter, task: int, rows: Sequence[dict[str, Any]]) -> table_source._Written:
    return table_source._Written(task, made._write.write(task, pa.Table.from_pylist(rows).to_batches()))


def write(given: DataFrame, lake: Lake, save_mode: str = "append", **options: str) -> None:
    given.write.format("moulin").option("lake", lake.uri).options(**options).mode(save_mode).save("shop.t")


def test_the_data_source_upserts_and_overwrites(lake: Lake, split: Table, spark: SparkSession) -> None:
    split.append([row(n, "a") for n in range(10)])
    ids = row_ids(split)
    version = lake.version
    write(frame(spark, [row(n, "b") for n in range(5, 15)]), lake, mode="upsert")
    assert lake.version == version + 1
    model = {n: row(n, "a" if n < 5 else "b") for n in range(15)}
    check(lake, split, model)
    assert {key: row_ids(split)[key] for key in ids} == ids
    write(frame(spark, [row(n, "c") for n in range(3)]), lake, "overwrite")
    check(lake, split, {n: row(n, "c") for n in range(3)})
    split.put(row(1, "d"))
    check(lake, split, {0: row(0, "c"), 1: row(1, "d"), 2: row(2, "c")})


def test_the_data_source_refuses_what_it_cannot_write(
    lake: Lake, plain: Table, orders: Table, spark: SparkSession
) -> None:
    with pytest.raises(InvalidInput, match="append or upsert"):
        source_writer(lake, spark, mode="replace")
    with pytest.raises(InvalidInput, match="error or last"):
        source_writer(lake, spark, duplicates="first")
    with pytest.raises(InvalidInput, match="no primary key"):
        source_writer(lake, spark, "shop.orders", mode="upsert")
    with pytest.raises(InvalidInput, match="not overwrite"):
        source_writer(lake, spark, overwrite=True, mode="upsert")
    plain.append([row(1, "a")])
    made = source_writer(lake, spark)
    message = written(made, 0, [row(1, "b")])
    made.commit([message])
    files = sorted((Path(lake.uri) / "tables").rglob("*.parquet"))
    made.abort([message])
    assert sorted((Path(lake.uri) / "tables").rglob("*.parquet")) == files, "its commit may have succeeded"
    assert plain.get(1) == row(1, "b")


def test_a_table_opened_again_after_a_close_takes_bulk_writes(lake: Lake, plain: Table, spark: SparkSession) -> None:
    plain.put(row(1, "a"))
    plain.close()
    again = lake.table("shop.t")
    assert again.append(frame(spark, [row(1, "b")])).rows_updated == 1
    assert again.append([row(2, "b")]).rows_added == 1
    check(lake, again, {1: row(1, "b"), 2: row(2, "b")})


def test_a_process_that_puts_keeps_the_table_to_itself(lake: Lake, plain: Table, spark: SparkSession) -> None:
    plain.put(row(1, "a"))
    made = source_writer(lake, spark)
    message = written(made, 0, [row(1, "b")])
    with pytest.raises(Exception, match="close it there"):
        made.commit([message])
    plain.close()
    made.commit([message])
    assert lake.table("shop.t").get(1) == row(1, "b")


def test_merge_updates_inserts_and_deletes(lake: Lake, table: Table, spark: SparkSession) -> None:
    table.put_batch([row(n, "a") for n in range(20)])
    model = {n: row(n, "a") for n in range(20)}
    done = table.merge(frame(spark, [row(n, "b") for n in range(15, 25)]))
    assert (done.rows_added, done.rows_updated, done.rows_deleted) == (5, 5, 0)
    upserted(model, [row(n, "b") for n in range(15, 25)])
    check(lake, table, model)
    ids_before = row_ids(table)

    source = spark.range(10, 30).selectExpr("id", "cast(100 as int) as plus", "id % 2 = 0 as chosen")
    done = table.merge(
        source,
        when_matched_set={"n": "target.n + source.plus", "v": "'merged'"},
        when_matched_if="source.chosen and target.v = 'a'",
        when_not_matched=None,
    )
    for n in (10, 12, 14):
        model[n] = {**model[n], "n": n + 100, "v": "merged"}
    assert (done.rows_added, done.rows_updated, done.rows_deleted) == (0, 3, 0)
    check(lake, table, model)
    assert row_ids(table) == ids_before

    done = table.merge([{"id": 3, "v": "only v"}, {"id": 300, "v": "new"}])
    model[3] = {**model[3], "v": "only v"}
    model[300] = {"id": 300, "part": None, "v": "new", "n": None}
    assert (done.rows_added, done.rows_updated) == (1, 1)
    check(lake, table, model)

    done = table.merge(
        spark.range(0, 400), when_matched="delete", when_matched_if="target.n < 5", when_not_matched=None
    )
    assert (done.rows_added, done.rows_updated, done.rows_deleted) == (0, 0, 5)
    model = {key: r for key, r in model.items() if r["n"] is None or r["n"] >= 5}
    check(lake, table, model)

    version = lake.version
    done = table.merge(pa.table({"id": [8, 800]}), when_matched=None)
    assert done.rows_added == 1
    model[800] = {"id": 800, "part": None, "v": None, "n": None}
    check(lake, table, model)
    assert lake.version == version + 1
    done = table.merge(pa.table({"id": [8, 800]}), when_matched=None)
    assert (done.version, lake.version) == (version + 1, version + 1), "nothing to do makes no version"


def test_a_merge_with_every_clause_equals_a_plain_model(lake: Lake, table: Table, spark: SparkSession) -> None:
    """As a feed of changes is applied: some rows are deleted, some updated, some inserted, others left alone."""
    table.put_batch([row(n, "a") for n in range(20)])
    model = {n: row(n, "a") for n in range(20)}
    feed = spark.range(10, 30).selectExpr(
        "id", "case id % 4 when 0 then 'delete' when 1 then 'change' else cast(null as string) end as op", "id * 2 as n"
    )
    sources = [feed, frame_to_arrow(feed)]
    for turn, source in enumerate(sources):
        done = table.merge(
            source,
            when_matched_set={"n": "source.n", "v": "source.op"},
            when_matched_if="source.op is not null",
            when_matched_delete_if="source.op = 'delete' and target.n >= 10",
            when_not_matched_set={"v": "'from feed'", "n": "source.n + 1"},
            when_not_matched_if="source.op = 'change'",
        )
        if turn == 0:
            for n in (12, 16):
                del model[n]
            for n in (13, 17):
                model[n] = {**model[n], "v": "change", "n": 2 * n}
            for n in (21, 25, 29):
                model[n] = {"id": n, "part": None, "v": "from feed", "n": 2 * n + 1}
            assert (done.rows_added, done.rows_updated, done.rows_deleted) == (3, 2, 2)
        else:
            for n in (21, 25, 29):
                model[n] = {**model[n], "v": "change", "n": 2 * n}
            assert (done.rows_added, done.rows_updated, done.rows_deleted) == (0, 5, 0)
        check(lake, table, model)
    done = table.merge(
        sources[1], when_matched_delete_if="true", when_not_matched=None, when_matched_set={"v": "source.op"}
    )
    assert (done.rows_updated, done.rows_deleted) == (0, len([n for n in model if 10 <= n < 30]))
    check(lake, table, {n: r for n, r in model.items() if n < 10})
    with pytest.raises(InvalidInput, match="more than once"):
        table.merge(
            spark.sql("select 5L as id, 'x' as v union all select 5L, 'y'").repartition(2),
            when_matched_delete_if="source.v = 'x'",
        )


def frame_to_arrow(source: Any) -> pa.Table:
    return pa.Table.from_pylist([r.asDict() for r in source.collect()])


def test_a_merge_refuses_wrong_rules_and_values(lake: Lake, plain: Table, orders: Table, spark: SparkSession) -> None:
    plain.append([row(1, "a")])
    source = spark.range(3)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"when_matched": "replace"}, "when_matched must be"),
        ({"when_not_matched": "update"}, "when_not_matched must be"),
        ({"when_matched": None, "when_not_matched": None}, "do nothing"),
        ({"when_matched": "delete", "when_matched_set": {"v": "'x'"}}, 'needs when_matched="update"'),
        ({"when_matched": None, "when_matched_if": "source.id > 1"}, "needs when_matched"),
        ({"when_matched_set": {"id": "source.id + 1"}}, "part of the key"),
        ({"when_matched_set": {"vv": "'x'"}}, "Did you mean"),
        ({"when_matched_set": {"v": 5}}, "as text"),
        ({"when_matched_set": {"n": "target.m"}}, "no column 'target.m'"),
        ({"when_matched_set": {"n": "'many'"}}, "not a value of type int"),
        ({"when_matched_set": {"n": "target.v"}}, "Column n"),
        ({"when_matched_if": "v = 'a'"}, "source.x and target.x"),
        ({"when_matched": "delete", "when_matched_delete_if": "true"}, 'needs when_matched="update"'),
        ({"when_matched_delete_if": "source.idd = 1"}, "when_matched_delete_if: .*source.x and target.x"),
        ({"when_not_matched": None, "when_not_matched_if": "source.id > 1"}, "need when_not_matched"),
        ({"when_not_matched": None, "when_not_matched_set": {"v": "'x'"}}, "need when_not_matched"),
        ({"when_not_matched_if": "target.n > 1"}, "when_not_matched_if: .*Name columns as source.x[.]"),
        ({"when_not_matched_set": {"v": "target.v"}}, "when_not_matched_set of v"),
        ({"when_not_matched_set": {"id": "source.id"}}, "part of the key"),
        ({"when_not_matched_set": {"n": "'many'"}}, "when_not_matched_set of n: .*not a value of type int"),
    ]
    for options, message in wrong:
        with pytest.raises(InvalidInput, match=message):
            plain.merge(source, **options)
    with pytest.raises(InvalidInput, match="key column id"):
        plain.merge(pa.table({"v": ["x"]}))
    with pytest.raises(InvalidInput, match="no expression uses"):
        plain.merge(spark.range(3).selectExpr("id", "1 as m"))
    with pytest.raises(InvalidInput, match="overflow|does not fit"):
        plain.merge(spark.range(1, 2), when_matched_set={"n": "target.n + 3000000000"})
    with pytest.raises(InvalidInput, match="null or missing"):
        plain.merge(spark.sql("select cast(null as bigint) as id"))
    with pytest.raises(InvalidInput, match="cannot read rows from int"):
        plain.merge(5)
    with pytest.raises(FailedPrecondition, match="no primary key"):
        orders.merge(source)
    strict = lake.create_table("shop.s", [("id", "long"), ("v", "string", False)], primary_key=["id"])
    with pytest.raises(InvalidInput, match="required and the source lacks it"):
        strict.merge(source)
    with pytest.raises(InvalidInput, match="required and when_not_matched_set lacks it"):
        lake.create_table(
            "shop.u", [("id", "long"), ("v", "string", False), ("w", "string")], primary_key=["id"]
        ).merge([{"id": 1, "v": "x"}], when_not_matched_set={"w": "'y'"})
    check(lake, plain, {1: row(1, "a")})


def test_upserts_find_keys_of_several_columns_and_kinds(lake: Lake, spark: SparkSession) -> None:
    columns = [("day", "date"), ("name", "string"), ("n", "decimal(10, 2)")]
    table = lake.create_table("shop.k", columns, primary_key=["name", "day"])
    numbers = spark.range(60).selectExpr("date_add(date'2024-01-01', cast(id % 6 as int)) day", "id")
    given = numbers.selectExpr("day", "concat('n', chr(id div 6)) as name", "cast(id as decimal(10, 2)) n")
    assert table.append(given.repartition(3)).rows_added == 60
    assert table.append(given.where("n < 30")).rows_updated == 30
    done = table.merge(given.where("n >= 30"), when_matched_set={"n": "target.n * 2 - source.n + 0.25"})
    assert (done.rows_added, done.rows_updated) == (0, 30)
    found = {(r.day, r.name): float(r.n) for r in table.to_spark().collect()}
    assert found == {
        (r.day, r.name): float(r.n) + (0.25 if r.n >= 30 else 0) for r in given.collect()
    }  # fmt: skip
    with pytest.raises(InvalidInput, match="appears more than once"):
        table.append(given.union(given))


def test_engines_see_rows_that_were_only_put(lake: Lake, plain: Table, spark: SparkSession) -> None:
    plain.put(row(1, "a"))
    assert lake.sql("select id from shop.t").collect()[0].id == 1
    plain.put(row(2, "a"))
    assert plain.to_spark().count() == 2
    plain.put(row(3, "a"))
    reader = lake.spark().read.format("moulin").option("lake", lake.uri)
    assert reader.load("shop.t").count() == 3
    plain.put(row(4, "a"))
    assert plain.to_spark(plain.version).count() == 3, "a version is what it was"
    assert lake.sql("select * from shop.t t join shop.t u on t.id = u.id").count() == 4


def test_compacted_segments_have_key_indexes_when_spark_writes_them(
    lake: Lake, table: Table, spark: SparkSession
) -> None:
    for n in range(3):
        table.append(frame(spark, [row(key, f"{n}") for key in range(n * 10, n * 10 + 20)]))
    assert lake.context.runner(1 << 30) is not None
    done = table.compact(everything=True)
    assert done.merges >= 1
    for segment in lake.catalog.segments(table.id, lake.version):
        assert segment.facts.level > 0
        path = lake.store.local_path(paths.key_index_path(segment.facts.path))
        assert path is not None
        assert path.stat().st_size == segment.facts.index_size > 0
    model = {key: row(key, f"{min(key // 10, 2)}") for key in range(40)}
    check(lake, table, model)
    assert table.delete_where("n >= 35").rows_deleted == 5
    check(lake, table, {key: r for key, r in model.items() if key < 35})


@pytest.fixture
def source(lake: Lake, spark: SparkSession) -> tuple[Table, Callable[..., None]]:
    """A table whose changes a stream upserts into shop.t, and what runs the stream until it has caught up."""
    table = lake.create_table("shop.source", COLUMNS)
    reader = spark.readStream.format("moulin").option("lake", lake.uri).option("changes_since", str(table.version))
    given = reader.option("max_versions_per_batch", "1").load("shop.source").select("id", "part", "v", "n")

    def run(checkpoint: Path, **more: str) -> None:
        sink = given.writeStream.format("moulin").option("lake", lake.uri).options(**more)
        query = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start("shop.t")
        query.awaitTermination()

    return table, run


@pytest.mark.long
def test_a_stream_upserts_every_batch_once(
    lake: Lake, split: Table, source: tuple[Table, Callable[..., None]], tmp_path: Path
) -> None:
    feed, run = source
    feed.append([row(n, "a") for n in range(6)])
    feed.append([row(n, "b") for n in range(3, 9)])
    checkpoint = tmp_path / "checkpoint"
    run(checkpoint)
    model = {n: row(n, "a" if n < 3 else "b") for n in range(9)}
    check(lake, split, model)
    second, first = split.history(2)
    assert (first.kind, first.summary["batch-id"], second.summary["batch-id"]) == ("upsert", "0", "1")
    split.append([row(4, "later")])
    upserted(model, [row(4, "later")])
    for note in [*(checkpoint / "commits").glob("1"), *(checkpoint / "commits").glob(".1.*")]:
        note.unlink()  # as if Spark had died between the sink's commit and its own
    version = lake.version
    run(checkpoint)
    assert lake.version == version, "the batch that ran again did nothing"
    check(lake, split, model)
    feed.append([row(n, "c") for n in (4, 20)])
    run(checkpoint)
    upserted(model, [row(n, "c") for n in (4, 20)])
    check(lake, split, model)


def test_equal_keys_in_a_batch_stop_a_stream_unless_the_last_counts(
    lake: Lake, plain: Table, spark: SparkSession
) -> None:
    twice = [[row(1, "a"), row(2, "a")], [row(1, "b")]]

    def batch(number: int, **more: str) -> None:
        options = {"lake": lake.uri, "path": "shop.t", "query_id": "q", **more}
        made = MoulinSource(options).streamWriter(frame(spark, []).schema, False)
        assert isinstance(made, StreamTableWriter)
        parts = [made._write.write(task, pa.Table.from_pylist(rows).to_batches()) for task, rows in enumerate(twice)]
        made.commit([stream_writer._Written(task, part, "q") for task, part in enumerate(parts)], number)

    with pytest.raises(InvalidInput, match="The key 1 appears more than once"):
        batch(0)
    assert plain.scan().count() == 0
    batch(0, duplicates="last")
    check(lake, plain, {1: row(1, "b"), 2: row(2, "a")})
    version = lake.version
    batch(0, duplicates="last")
    assert lake.version == version, "the same batch of the same query"


def test_a_write_whose_commit_breaks_leaves_the_rows_it_may_have_made(
    lake: Lake, plain: Table, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog had decided when the connection broke: a second try by request id finds it done."""
    committer = lake.context.committer
    commit = type(committer).commit

    def broken(self: Any, *given: Any, **more: Any) -> Any:
        commit(self, *given, **more)
        raise Unavailable("The connection broke.")

    monkeypatch.setattr(type(committer), "commit", broken)
    with pytest.raises(Unavailable):
        plain.append(frame(spark, [row(1, "a")]), request_id="once")
    monkeypatch.undo()
    version = lake.version
    assert plain.append(frame(spark, [row(1, "b")]), request_id="once").version == version
    check(lake, plain, {1: row(1, "a")})


def test_a_merge_takes_uuids_from_a_frame(lake: Lake, spark: SparkSession) -> None:
    """Spark has no UUIDs: a frame brings them as text, alone and inside structs and lists."""
    columns = [("id", "long", False), ("u", "uuid"), ("s", "struct<u: uuid>"), ("l", "list<uuid>")]
    table = lake.create_table("shop.uuids", columns, primary_key=["id"])
    table.put({"id": 1, "u": UUID(int=1), "s": {"u": UUID(int=1)}, "l": [UUID(int=1)]})
    text = str(UUID(int=9))
    query = f"select id, '{text}' u, named_struct('u', '{text}') s, array('{text}', null) l from range(1, 3)"
    done = table.merge(spark.sql(query))
    assert (done.rows_updated, done.rows_added) == (1, 1)
    expected = {"u": UUID(int=9), "s": {"u": UUID(int=9)}, "l": [UUID(int=9), None]}
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda one: one["id"])
    assert found == [{"id": 1, **expected}, {"id": 2, **expected}]
    table.compact(everything=True)
    read = lake.sql("select id, u, s.u, l[0], size(l) from shop.uuids where id = 2").collect()
    assert [tuple(map(str, row)) for row in read] == [("2", text, text, text, "2")]


def test_a_query_of_one_table_is_not_stopped_by_another(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = lake.create_table("shop.broken", COLUMNS, primary_key=["id"])
    whole = lake.create_table("shop.whole", COLUMNS, primary_key=["id"])
    broken.append([row(1, "a")])
    before = lake.catalog.version()
    for table in (broken, whole):
        table.put(row(2, "b"))
    flush_own = KeyedTable.flush_own

    def failing(self: KeyedTable) -> int:
        if self.id == broken.id:
            raise Unavailable("broken")
        return flush_own(self)

    with monkeypatch.context() as patch:
        patch.setattr(KeyedTable, "flush_own", failing)
        assert lake.sql("select count(*) from shop.whole").collect()[0][0] == 1
        assert lake.sql(f"select count(*) from shop.broken version as of {before}").collect()[0][0] == 1
        with pytest.raises(Unavailable, match="broken"):
            lake.sql("select count(*) from shop.whole, shop.broken")
        assert lake.spark() is not None
    assert lake.sql("select count(*) from shop.broken").collect()[0][0] == 2
