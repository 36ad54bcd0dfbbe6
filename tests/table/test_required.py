"""set_required: a column that may be null no more, and no way for a null to slip in beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import moulin
from moulin.errors import Conflict, FailedPrecondition, InvalidInput
from moulin.lake import Lake
from moulin.model.ingest import Routing
from moulin.model.schema.change import AddColumn, RenameColumn, SetRequired
from moulin.table import required
from moulin.table.commit.change import DataChange
from moulin.table.table import Table
from moulin.table.write.writes import prepare_append
from tests.table.commit.test_races import start_compaction
from tests.table.conftest import BACKENDS, SERVED, OpenLake
from tests.table.other_process import OtherProcess

everywhere = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)
folder = pytest.mark.parametrize("open_lake", ["folder"], indirect=True)
COLUMNS = [("id", "long", False), ("x", "string"), ("tags", "list<string>")]
NULL = [{"id": 9, "x": None, "tags": None}]
FULL = [{"id": 8, "x": "h", "tags": ["h"]}]


@pytest.fixture(params=[(), ("id",)], ids=["event", "keyed"])
def table(request: pytest.FixtureRequest, lake: Lake) -> Table:
    table = lake.create_table("shop.things", COLUMNS, primary_key=request.param)
    table.append([{"id": 1, "x": "a", "tags": ["a"]}, {"id": 2, "x": None, "tags": None}])
    return table


def content(source: Any) -> dict[int, Any]:
    return {row["id"]: row["x"] for row in source.scan(["id", "x"]).to_pylist()}


@pytest.mark.sample(4)
@everywhere
@pytest.mark.parametrize("column", ["x", "tags"])
def test_a_column_without_nulls_in_live_rows_becomes_required_in_one_version(table: Table, column: str) -> None:
    before = table.version
    with pytest.raises(FailedPrecondition, match=f"Column {column} of shop.things cannot become NOT NULL"):
        table.set_required(column)
    assert table.version == before
    table.delete_where("id = 2")
    assert table.set_required(column).version == before + 2
    assert not table.schema.field(column).nullable
    with pytest.raises(InvalidInput, match=f"column {column}: it is null or missing, but required"):
        table.append([{"id": 3, "x": "c", "tags": ["c"]} | {column: None}])
    assert content(table) == {1: "a"}
    assert content(table.at(before)) == {1: "a", 2: None}
    assert table.at(before).schema.field(column).nullable
    gone = [row for row in table.changes(before - 1).to_arrow().to_pylist() if row["id"] == 2]
    assert {row[column] for row in gone} == {None}, "feeds show rows of older versions as they were"
    table.compact(everything=True)
    assert content(table) == {1: "a"}
    table.restore(before)
    assert content(table) == {1: "a", 2: None}
    assert table.schema.field(column).nullable


@everywhere
def test_an_append_of_a_null_that_was_prepared_before_is_refused_and_one_without_is_not(lake: Lake) -> None:
    table = lake.create_table("shop.events", COLUMNS)
    context, state = table._context, table.state()
    bad, good = prepare_append(context, state, NULL), prepare_append(context, state, FULL)
    table.set_required("x")
    with pytest.raises(Conflict, match="column x of the new rows was expected to be nullable and is NOT NULL"):
        context.committer.commit([bad])
    context.committer.commit([good])
    assert content(table) == {8: "h"}


def test_what_facts_do_not_count_is_not_taken_on_trust(lake: Lake) -> None:
    table = lake.create_table("shop.events", COLUMNS)
    prepared = prepare_append(table._context, table.state(), FULL)
    table.set_required("tags")
    with pytest.raises(Conflict, match="column tags"):
        table._context.committer.commit([prepared])
    assert table.append(FULL).rows_added == 1


def during_look(monkeypatch: pytest.MonkeyPatch, change: Callable[[], Any]) -> list[bool]:
    """Have `change` happen after the first look for nulls, before what it found is committed."""
    look, looks = required._has_null, list[bool]()

    def racing(*args: Any) -> bool:
        looks.append(look(*args))
        if len(looks) == 1:
            thread = threading.Thread(target=change)
            thread.start()
            thread.join()
        return looks[-1]

    monkeypatch.setattr(required, "_has_null", racing)
    return looks


@everywhere
def test_a_null_that_comes_after_the_look_is_found(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("shop.events", COLUMNS)
    looks = during_look(monkeypatch, lambda: table.append(NULL))
    with pytest.raises(FailedPrecondition, match="some rows have a null in it"):
        table.set_required("x")
    assert looks == [False, True]
    assert table.schema.field("x").nullable


@everywhere
def test_rows_without_nulls_that_come_after_the_look_cost_no_second_one(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("shop.events", COLUMNS)
    looks = during_look(monkeypatch, lambda: table.append(FULL))
    table.set_required("x")
    assert looks == [False]
    assert content(table) == {8: "h"}


def test_a_restore_after_the_look_is_looked_through(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("shop.events", COLUMNS)
    first = table.append(NULL).version
    table.overwrite(FULL)
    looks = during_look(monkeypatch, lambda: table.restore(first))
    with pytest.raises(FailedPrecondition, match="some rows have a null in it"):
        table.set_required("x")
    assert looks == [False, True]


def test_a_compaction_that_read_a_null_commits_after_its_row_is_gone(lake: Lake) -> None:
    table = lake.create_table("shop.events", COLUMNS)
    table.append([*NULL, *FULL])
    table.append([{"id": 1, "x": "a", "tags": []}])
    commit = start_compaction(table)
    table.delete_where("x is null")
    table.set_required("x")
    commit()
    assert content(table) == {8: "h", 1: "a"}
    table.compact(everything=True)
    assert content(table) == {8: "h", 1: "a"}


def test_a_null_that_is_only_in_a_memtable_counts(lake: Lake) -> None:
    table = lake.create_table("shop.things", COLUMNS, primary_key=["id"])
    table.put({"id": 1, "x": None})
    with pytest.raises(FailedPrecondition, match="some rows have a null in it"):
        table.set_required("x")
    table.put({"id": 1, "x": "a"})
    table.set_required("x")
    for bad in ({"id": 2}, {"id": 2, "x": None}):
        with pytest.raises(InvalidInput, match="x"):
            table.put(bad)
        with pytest.raises(InvalidInput, match="x"):
            table.put_batch([bad])
    table.put({"id": 3, "x": "c"})
    assert content(table) == {1: "a", 3: "c"}


@folder
def test_a_null_in_the_log_of_a_writer_that_died_counts(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("shop.things", COLUMNS, primary_key=["id"])
    with OtherProcess({"uri": tmp_path / "lake"}, "shop.things") as other:
        other.call("put", {"id": 1, "x": None})
        other.kill()
        with pytest.raises(FailedPrecondition, match="some rows have a null in it"):
            table.set_required("x")
    assert content(table) == {1: None}


@folder
def test_another_process_that_knows_the_old_schema_puts_no_null(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("shop.things", COLUMNS, primary_key=["id"])
    with OtherProcess({"uri": tmp_path / "lake"}, "shop.things") as other:
        other.call("get", 1)
        table.set_required("x")
        table.close()
        with pytest.raises(InvalidInput, match="x"):
            other.call("put", {"id": 1, "x": None})
        other.call("put", {"id": 2, "x": "b"})
        other.call("flush")
    assert content(lake.table("shop.things")) == {2: "b"}


@everywhere
def test_collectors_that_may_send_rows_stand_in_the_way(lake: Lake) -> None:
    table = lake.create_table("shop.events", COLUMNS)
    lake.catalog.ingest.create_token("shop", "sender", Routing(table.id, table.id, table.id))
    with pytest.raises(FailedPrecondition, match="while ingest token 'sender' lets collectors send rows"):
        table.set_required("x")
    assert table.schema.field("x").nullable


def test_several_changes_make_one_version(lake: Lake) -> None:
    table = lake.create_table("shop.events", COLUMNS)
    table.append(FULL)
    before = table.version
    table.alter(RenameColumn("x", "y"), SetRequired("y"), AddColumn("z", "int", 3), SetRequired("z"))
    assert table.version == before + 1
    assert [field.nullable for field in table.schema] == [False, False, True, False]
    with pytest.raises(FailedPrecondition, match="Column w"):
        table.alter(AddColumn("w", "int"), SetRequired("w"))
    with pytest.raises(InvalidInput, match="only whole columns"):
        table.alter(AddColumn("s", "struct<a: int>"), SetRequired("s.a"))
    table.set_required("y")
    assert table.scan().to_pylist() == [{"id": 8, "y": "h", "tags": ["h"], "z": 3}]


STEPS = st.lists(
    st.sampled_from(["full", "null", "late", "drop", "compact", "require", "allow", "restore"]), max_size=9
)


@folder
@given(steps=STEPS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_required_column_never_shows_a_null(open_lake: OpenLake, steps: list[str]) -> None:
    lake = open_lake()
    lake.create_database("any", if_not_exists=True)
    table = lake.create_table(f"any.t{len(lake.tables('any'))}", COLUMNS)
    rows: list[str | None] = []
    is_required, kept, late = False, table.version, list[DataChange]()
    past: dict[int, tuple[list[str | None], bool]] = {kept: ([], False)}
    for step in steps:
        try:
            match step:
                case "full" | "null":
                    table.append(FULL if step == "full" else NULL)
                    rows.append("h" if step == "full" else None)
                case "late":
                    late.append(prepare_append(table._context, table.state(kept), NULL))
                    table._context.committer.commit([late[-1]])
                    rows.append(None)
                case "drop":
                    table.delete_where("x is null")
                    rows = [value for value in rows if value is not None]
                case "compact":
                    table.compact(everything=True)
                case "require":
                    table.set_required("x")
                    is_required = True
                case "allow":
                    table.set_nullable("x")
                    is_required = False
                case "restore":
                    table.restore(kept)
                    rows, is_required = list(past[kept][0]), past[kept][1]
        except (InvalidInput, Conflict):
            assert is_required or past[kept][1], step
        except FailedPrecondition:
            assert step == "require"
            assert None in rows
        past[table.version] = (list(rows), is_required)
        kept = table.version if step == "full" else kept
        assert sorted(map(str, table.scan(["x"]).to_arrow()["x"].to_pylist())) == sorted(map(str, rows))
        assert table.schema.field("x").nullable is not is_required
        assert not (is_required and None in rows)


def test_a_served_replica_reads_both_sides_of_the_change(lake: Lake, tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "own") as own:
        own.create_database("shop")
        table = own.create_table("shop.t", COLUMNS)
        first = table.append(NULL).version
        table.overwrite(FULL)
        table.set_required("x")
        with moulin.connect(tmp_path / "own", read_only=True) as replica:
            shown = replica.table("shop.t")
            assert not shown.schema.field("x").nullable
            assert content(shown) == {8: "h"}
            assert content(shown.at(first)) == {9: None}
