"""Transactions: changes of rows and schemas, on event and keyed tables, that become one version or nothing."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import Closed, Conflict, FailedPrecondition, InvalidInput, NotFound
from moulin.lake import Lake
from moulin.table.table import Table
from tests.table.conftest import BACKENDS, SERVED, OpenLake

COLUMNS = [("id", "int", False), ("name", "string")]

everywhere = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)


@pytest.fixture
def events(lake: Lake) -> Table:
    return lake.create_table("shop.events", COLUMNS)


@pytest.fixture
def keyed(lake: Lake) -> Table:
    return lake.create_table("shop.keyed", COLUMNS, primary_key=["id"])


def some(*ids: int, name: str = "n") -> list[dict[str, Any]]:
    return [{"id": n, "name": f"{name}{n}"} for n in ids]


def names(source: Any) -> dict[int, str]:
    return {row["id"]: row["name"] for row in source.scan().to_pylist()}


@everywhere
def test_rows_and_schemas_of_both_kinds_of_table_are_one_version(lake: Lake, events: Table, keyed: Table) -> None:
    events.append(some(1, 2, 3))
    keyed.append(some(1, 2, 3))
    keyed.put({"id": 4, "name": "put"})
    with lake.transaction() as tx:
        for name in ("shop.events", "shop.keyed"):
            table = tx.table(name)
            table.append(some(3, 5, name="new"))
            table.add_column("level", "long", default=7)
            table.append([{"id": 6, "name": "six", "level": 1}])
            table.widen_column("id", "long")
            table.rename_column("name", "label")
            table.append([{"id": 2**40, "label": "large"}])
            assert table.delete_where("label = 'n1'") == 1
            table.set_properties({"owner": "me"})
        assert events.schema.names == keyed.schema.names == ["id", "name"], "nothing is seen before the commit"
    assert events.version == keyed.version == tx.version
    old = [{"id": n, "label": f"n{n}", "level": 7} for n in (2, 3)]
    new = [{"id": 3, "label": "new3", "level": 7}, {"id": 5, "label": "new5", "level": 7}]
    new += [{"id": 6, "label": "six", "level": 1}, {"id": 2**40, "label": "large", "level": 7}]
    found = sorted(events.scan().to_pylist(), key=lambda row: (row["id"], row["label"]))
    assert found == sorted(old + new, key=lambda row: (row["id"], row["label"]))
    wanted = {row["id"]: row for row in (*old, *new)} | {4: {"id": 4, "label": "put", "level": 7}}
    assert {row["id"]: row for row in keyed.scan().to_pylist()} == wanted
    assert keyed.get(3)["label"] == "new3"
    assert events.properties["owner"] == keyed.properties["owner"] == "me"


def test_an_update_of_a_key_keeps_its_row_id(lake: Lake, keyed: Table) -> None:
    keyed.append(some(1, 2))
    before = {row["id"]: row["_row_id"] for row in keyed.scan(columns=["id", "_row_id"]).to_pylist()}
    with lake.transaction() as tx:
        tx.table("shop.keyed").append(some(2, name="a"))
        tx.table("shop.keyed").append(some(2, 3, name="b"))
    after = {row["id"]: row["_row_id"] for row in keyed.scan(columns=["id", "_row_id"]).to_pylist()}
    assert {n: after[n] for n in (1, 2)} == before
    kinds = [row["_change_type"] for row in keyed.changes(tx.version - 1).to_arrow().to_pylist()]
    assert sorted(kinds) == ["insert", "update_after", "update_before"]


def test_each_change_and_each_read_sees_those_before_it(lake: Lake, events: Table, keyed: Table) -> None:
    events.append(some(1, 2))
    keyed.append(some(1, 2))
    with lake.transaction() as tx:
        for name in ("shop.events", "shop.keyed"):
            table = tx.table(name)
            assert names(table) == {1: "n1", 2: "n2"}
            table.append(some(3, 4))
            assert table.delete_where("id in (2, 3)") == 2
            assert names(table) == {1: "n1", 4: "n4"}
            assert table.scan().count() == table.scan(where="id > 0").count() == 2
            table.overwrite(some(9), where="id = 4")
            assert names(table) == {1: "n1", 9: "n9"}
            assert table.delete_where("id = 9") == 1
            table.overwrite(some(5, 6))
            table.append(some(7))
            assert names(table) == {5: "n5", 6: "n6", 7: "n7"}
            assert table.delete_where("id > 5") == 2
            with pytest.raises(InvalidInput, match="_row_id"):
                table.scan(columns=["_row_id"])
    assert names(events) == names(keyed) == {5: "n5"}


def test_an_exception_leaves_nothing_and_frees_the_table(lake: Lake, events: Table, keyed: Table) -> None:
    keyed.append(some(1))
    before = lake.version
    with pytest.raises(RuntimeError), lake.transaction() as tx:
        tx.table("shop.events").append(some(1))
        tx.table("shop.keyed").add_column("level", "int")
        tx.table("shop.keyed").append([{"id": 2, "level": 1}])
        raise RuntimeError
    assert (lake.version, tx.version) == (before, None)
    keyed.put({"id": 1, "name": "after"})
    assert keyed.append(some(2)).rows_added == 1
    assert names(keyed) == {1: "after", 2: "n2"}
    with pytest.raises(Closed):
        tx.table("shop.events")


def test_data_that_does_not_fit_an_overwrite_leaves_the_rows(lake: Lake, events: Table, keyed: Table) -> None:
    events.append(some(1))
    keyed.append(some(1))
    with lake.transaction() as tx:
        for name in ("shop.events", "shop.keyed"):
            with pytest.raises(InvalidInput):
                tx.table(name).overwrite([{"id": "x"}])
            with pytest.raises(NotFound):
                tx.table(name).drop_column("none")
    assert names(events) == names(keyed) == {1: "n1"}


def test_the_table_itself_is_not_changed_beside_its_transaction(lake: Lake, keyed: Table) -> None:
    keyed.append(some(1))
    with lake.transaction() as tx:
        tx.table("shop.keyed").append(some(2))
        for change in (
            lambda: keyed.put({"id": 3}),
            lambda: keyed.delete(1),
            lambda: keyed.append(some(2)),
            lambda: keyed.delete_where("id = 1"),
        ):
            with pytest.raises(FailedPrecondition, match="transaction"):
                change()
        assert keyed.get(1) == {"id": 1, "name": "n1"}
        assert names(keyed) == {1: "n1"}
    assert names(keyed) == {1: "n1", 2: "n2"}


def test_puts_of_other_threads_wait_and_are_kept(lake: Lake, keyed: Table) -> None:
    with ThreadPoolExecutor(1) as threads:
        with lake.transaction() as tx:
            tx.table("shop.keyed").append(some(1, 2))
            waiting = threads.submit(keyed.put, {"id": 2, "name": "later"})
            assert names(keyed) == {}
        waiting.result()
    assert names(keyed) == {1: "n1", 2: "later"}


def test_two_transactions_over_the_same_tables_do_not_wait_for_ever(open_lake: OpenLake) -> None:
    lake = open_lake(settings={"lock_seconds": 0.3})
    lake.create_database("shop")
    for name in ("a", "b"):
        lake.create_table(f"shop.{name}", COLUMNS, primary_key=["id"])
    both, lost = threading.Barrier(2), []

    def run(n: int, first: str, second: str) -> None:
        try:
            with lake.transaction() as tx:
                tx.table(first).append(some(n))
                both.wait()
                tx.table(second).append(some(n))
        except Conflict as error:
            lost.append(str(error))

    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(run, 1, "shop.a", "shop.b")
        two = threads.submit(run, 2, "shop.b", "shop.a")
        one.result(), two.result()
    assert 1 <= len(lost) <= 2
    assert "retry" in lost[0]
    assert names(lake.table("shop.a")) == names(lake.table("shop.b")), "both or none"
    assert len(names(lake.table("shop.a"))) == 2 - len(lost)


def test_a_table_that_another_process_writes_is_a_conflict(tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake") as lake, Lake.open(tmp_path / "lake", settings={"lock_seconds": 0.2}) as other:
        lake.create_database("shop")
        table = lake.create_table("shop.keyed", COLUMNS, primary_key=["id"])
        table.put({"id": 1, "name": "put"})
        with pytest.raises(Conflict, match="retry"), other.transaction() as tx:
            tx.table("shop.keyed").append(some(2))
        table.close()
        with other.transaction() as tx:
            tx.table("shop.keyed").append(some(2))
        assert names(other.table("shop.keyed")) == {1: "put", 2: "n2"}


def test_a_keyed_table_that_was_read_and_changed_by_another_is_a_conflict(lake: Lake, keyed: Table) -> None:
    keyed.append(some(1))
    with pytest.raises(Conflict, match="read it at version"), lake.transaction() as tx:
        table = tx.table("shop.keyed")
        total = table.scan().count()
        keyed.append(some(2))
        table.append([{"id": 9, "name": str(total)}])
    assert names(keyed) == {1: "n1", 2: "n2"}
    with lake.transaction() as tx:
        keyed.append(some(3))
        tx.table("shop.keyed").append(some(9))  # computed from what is there now
    assert sorted(names(keyed)) == [1, 2, 3, 9]


@everywhere
def test_a_schema_that_another_altered_is_a_conflict_for_rows_of_a_new_one(lake: Lake, events: Table) -> None:
    with pytest.raises(Conflict, match="the schema"), lake.transaction() as tx:
        table = tx.table("shop.events")
        table.add_column("mine", "string")
        table.append([{"id": 1, "mine": "x"}])
        events.add_column("theirs", "long")
    assert events.schema.names == ["id", "name", "theirs"]
    assert events.scan().count() == 0
    with lake.transaction() as tx:  # without rows in a new schema, both stand
        tx.table("shop.events").add_column("mine", "string")
        events.add_column("other", "long")
    assert events.schema.names == ["id", "name", "theirs", "other", "mine"]


def test_deletes_of_a_transaction_follow_a_compaction(lake: Lake, events: Table, keyed: Table) -> None:
    for n in range(4):
        events.append(some(n))
        keyed.append(some(n))
    with lake.transaction() as tx:
        for name in ("shop.events", "shop.keyed"):
            tx.table(name).delete_where("id = 2")
        tx.table("shop.keyed").append(some(1, name="new"))
        events.compact(everything=True)
        keyed.compact(everything=True)
    assert names(events) == {0: "n0", 1: "n1", 3: "n3"}
    assert names(keyed) == {0: "n0", 1: "new1", 3: "n3"}


def test_a_table_in_regions_takes_rows_of_new_ones(lake: Lake) -> None:
    columns = [("tenant", "string", False), ("id", "int", False), ("name", "string")]
    table = lake.create_table(
        "shop.split", columns, primary_key=["tenant", "id"], properties={"moulin.regions": "tenant"}
    )
    table.append([{"tenant": "a", "id": 1, "name": "x"}])
    with lake.transaction() as tx:
        for tenant in ("a", "b", "c"):
            tx.table("shop.split").append([{"tenant": tenant, "id": n, "name": tenant} for n in (1, 2)])
        tx.table("shop.split").delete_where("tenant = 'c' and id = 1")
    wanted = {("a", 1): "a", ("a", 2): "a", ("b", 1): "b", ("b", 2): "b", ("c", 2): "c"}
    assert {(row["tenant"], row["id"]): row["name"] for row in table.scan().to_pylist()} == wanted
    assert table.get(("c", 1)) is None


def test_a_read_back_from_manifests_has_every_schema(tmp_path: Path) -> None:
    with Lake.open(tmp_path / "own") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", COLUMNS, primary_key=["id"])
        with lake.transaction() as tx:
            tx.table("shop.t").append(some(1))
            tx.table("shop.t").add_column("a", "int", default=1)
            tx.table("shop.t").append([{"id": 2, "a": 2}])
            tx.table("shop.t").drop_column("name")
            tx.table("shop.t").append([{"id": 3, "a": 3}])
        found = table.scan().to_pylist()
    with Lake.open_replica(tmp_path / "own") as replica:
        assert replica.table("shop.t").scan().to_pylist() == found
    assert sorted((row["id"], row["a"]) for row in found) == [(1, 1), (2, 2), (3, 3)]


def test_an_overwrite_in_pieces_with_a_repeated_key_replaces_all_rows(lake: Lake) -> None:
    """Rows that such an overwrite hides in its own segments made it forget that all others go."""
    table = lake.create_table(
        "shop.pieces", COLUMNS, primary_key=["id"], properties={"moulin.append-segment-bytes": "1024"}
    )
    table.append(some(*range(1000, 1010)))
    rows = [*some(*range(200)), *some(0, 1, name="last")]
    table.overwrite(pa.Table.from_pylist(rows).to_batches(max_chunksize=50))
    assert len(names(table)) == 200
    assert names(table)[0] == "last0"


IDS = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(IDS, unique=True, max_size=3)),
    st.tuples(st.just("delete"), IDS),
    st.tuples(st.just("overwrite"), st.lists(IDS, unique=True, max_size=2)),
    st.tuples(st.just("replace"), st.tuples(IDS, st.lists(IDS, unique=True, max_size=2))),
    st.tuples(st.just("add"), st.just(None)),
    st.tuples(st.just("drop"), st.just(None)),
    st.tuples(st.just("widen"), st.just(None)),
    st.tuples(st.just("compact"), st.just(None)),
)
SCRIPTS = st.lists(
    st.tuples(st.booleans(), st.lists(st.tuples(st.sampled_from(["events", "keyed"]), STEPS), max_size=8)), max_size=4
)


class Model:
    """A table as a list of dicts."""

    def __init__(self, keyed: bool) -> None:
        self.keyed, self.rows, self.columns = keyed, [], ["id"]
        self.wide = False

    def copy(self) -> Model:
        made = Model(self.keyed)
        made.rows, made.columns, made.wide = [dict(row) for row in self.rows], list(self.columns), self.wide
        return made

    def append(self, ids: list[int], mark: int) -> list[dict[str, Any]]:
        new = [{name: n if name == "id" else mark for name in self.columns} for n in ids]
        if self.keyed:
            self.rows = [row for row in self.rows if row["id"] not in ids]
        self.rows += new
        return new


def step(table: Any, model: Model, what: str, with_: Any, mark: int, real: Table) -> None:
    if what == "append":
        table.append(model.append(with_, mark))
    elif what == "delete":
        left = [row for row in model.rows if row["id"] != with_]
        assert table.delete_where(f"id = {with_}") == len(model.rows) - len(left)
        model.rows = left
    elif what in ("overwrite", "replace"):
        out, ids = (None, with_) if what == "overwrite" else with_
        model.rows = [row for row in model.rows if out is not None and row["id"] != out]
        table.overwrite(model.append(ids, mark), where=None if out is None else f"id = {out}")
    elif what == "add":
        name = f"c{mark}"
        table.add_column(name, "int", default=mark)
        model.columns.append(name)
        model.rows = [{**row, name: mark} for row in model.rows]
    elif what == "drop" and len(model.columns) > 1:
        name = model.columns.pop()
        table.drop_column(name)
        model.rows = [{key: value for key, value in row.items() if key != name} for row in model.rows]
    elif what == "widen" and not model.wide:
        table.widen_column("id", "long")
        model.wide = True
    elif what == "compact" and model.keyed:  # deletes of an event table's overwrite would have to be computed again
        real.compact(everything=True)


@settings(max_examples=40, deadline=None)
@given(script=SCRIPTS)
def test_transactions_follow_a_dict(tmp_path_factory: pytest.TempPathFactory, script: Any) -> None:
    with Lake.open(tmp_path_factory.mktemp("model") / "lake") as lake:
        lake.create_database("shop")
        real = {
            n: lake.create_table(f"shop.{n}", [("id", "int", False)], primary_key=["id"] * (n == "keyed"))
            for n in ("events", "keyed")
        }
        models = {name: Model(name == "keyed") for name in real}
        mark = 0
        for fails, steps in script:
            working = {name: model.copy() for name, model in models.items()}
            try:
                with lake.transaction() as tx:
                    for name, (what, with_) in steps:
                        mark += 1
                        step(tx.table(f"shop.{name}"), working[name], what, with_, mark, real[name])
                        seen = tx.table(f"shop.{name}").scan().to_pylist()
                        assert sorted(seen, key=repr) == sorted(working[name].rows, key=repr)
                    if fails:
                        raise InterruptedError
                models = working
            except InterruptedError:
                pass
            for name, model in models.items():
                assert real[name].schema.names == model.columns
                assert sorted(real[name].scan().to_pylist(), key=repr) == sorted(model.rows, key=repr)
