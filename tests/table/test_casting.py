"""cast_column: another type for a column, all rows written again in one version, nobody else's rows lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from moulin.catalog.commit.table_commit import TableCommit
from moulin.errors import Conflict, FailedPrecondition, InvalidInput, NotFound
from moulin.lake import Lake
from moulin.model.operations import AlterSchema, Kind
from moulin.model.schema.change import CastColumn
from moulin.table import casting
from moulin.table.table import Table
from tests.table.conftest import BACKENDS, SERVED, OpenLake

everywhere = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)


@pytest.fixture(params=[(), ("id",)], ids=["event", "keyed"])
def table(request: pytest.FixtureRequest, lake: Lake) -> Table:
    columns = [("id", "long", False), ("text", "string"), ("number", "long"), ("last", "double")]
    table = lake.create_table("shop.things", columns, primary_key=request.param)
    for first in (0, 4, 8):
        table.append([{"id": n, "text": str(n), "number": n, "last": n / 2} for n in range(first, first + 4)])
    table.delete_where("id = 5")
    return table


def column(source: Any, name: str) -> dict[int, Any]:
    return {row["id"]: row[name] for row in source.scan(["id", name]).to_pylist()}


WITHOUT_5 = [n for n in range(12) if n != 5]


@everywhere
def test_text_becomes_numbers_in_one_version(table: Table) -> None:
    before = table.version
    who = ["id", "_row_id", "_last_updated_version"]
    rows = sorted(table.scan(who).to_pylist(), key=repr)
    done = table.cast_column("text", "int")
    assert done.version == table.version == before + 1
    assert column(table, "text") == {n: n for n in WITHOUT_5}
    assert (table.schema.names, str(table.schema.field("text").type)) == (["id", "text", "number", "last"], "int32")
    assert sorted(table.scan(who).to_pylist(), key=repr) == rows, "a cast marks no row as updated"
    assert table.changes(before).to_arrow().num_rows == 0
    assert str(table.at(before).schema.field("text").type) == "string"
    assert column(table.at(before), "text") == {n: str(n) for n in WITHOUT_5}
    table.append([{"id": 20, "text": 7}])
    assert table.scan(["id"], where="text = 7").count() == 2
    table.compact(everything=True)
    assert column(table, "text") == {n: n for n in WITHOUT_5} | {20: 7}
    table.restore(before)
    assert column(table, "text") == {n: str(n) for n in WITHOUT_5}


def test_a_value_that_does_not_fit_is_named_and_nothing_changes(table: Table) -> None:
    table.append([{"id": 30, "text": "thirty", "number": 2**40}])
    version = table.version
    row_id = table.scan(["_row_id"], where="id = 30").to_pylist()[0]["_row_id"]
    with pytest.raises(InvalidInput, match=f"text: the value 'thirty' of the row with _row_id {row_id} does not fit"):
        table.cast_column("text", "int")
    with pytest.raises(InvalidInput, match="number: the value 1099511627776"):
        table.cast_column("number", "int")
    assert table.version == version
    table.delete_where("id = 30")
    table.cast_column("number", "int")
    assert column(table, "number") == {n: n for n in WITHOUT_5}


def test_where_widening_is_enough_nothing_is_written_again(table: Table) -> None:
    table.cast_column("number", "int")
    before = {s.facts.number for s in table.scan().plan().segments}
    version = table.version
    table.cast_column("number", "long")
    assert {s.facts.number for s in table.scan().plan().segments} == before
    assert table.history(1)[0].kind == Kind.ALTER_SCHEMA
    assert table.cast_column("number", "long").version == version + 1, "the type that it has"


def test_a_cast_that_cannot_be_is_refused_with_a_sentence(lake: Lake, table: Table) -> None:
    version = table.version
    for name, kind, error in (
        ("text", "struct<a: int>", InvalidInput),
        ("number", "date", InvalidInput),
        ("none", "int", NotFound),
    ):
        with pytest.raises(error, match=name):
            table.cast_column(name, kind)
    if table.state().schema.identifier_field_ids:
        with pytest.raises(FailedPrecondition, match="the primary key uses it"):
            table.cast_column("id", "string")
    assert table.version == version
    other = lake.create_table(
        "shop.laid_out", [("d", "date"), ("n", "long"), ("ts", "timestamp")],
        partition_by=["d"], sort_by=["n"], event_time="ts",
    )  # fmt: skip
    for name in ("d", "n", "ts"):
        with pytest.raises(FailedPrecondition, match=f"Column {name} cannot become string: the"):
            other.cast_column(name, "string")


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    ("old", "new", "value", "cast"),
    [
        ("string", "date", "2024-02-29", date(2024, 2, 29)),
        ("string", "timestamp", "2024-02-29T01:02:03", datetime(2024, 2, 29, 1, 2, 3)),
        ("string", "decimal(9, 2)", "12.5", Decimal("12.50")),
        ("string", "boolean", "true", True),
        ("string", "uuid", "5f298ffc-1d35-4774-9859-9515802d2a68", UUID("5f298ffc-1d35-4774-9859-9515802d2a68")),
        ("uuid", "string", UUID("5f298ffc-1d35-4774-9859-9515802d2a68"), "5f298ffc-1d35-4774-9859-9515802d2a68"),
        ("double", "float", 0.1, 0.10000000149011612),
        ("double", "long", 3.0, 3),
        ("long", "double", 3, 3.0),
        ("boolean", "int", True, 1),
        ("timestamp", "date", datetime(2024, 2, 29), date(2024, 2, 29)),
        ("decimal(9, 2)", "string", Decimal("1.50"), "1.50"),
        ("binary", "string", b"ab", "ab"),
    ],
)
def test_types_cast_as_a_reader_would_expect(lake: Lake, old: str, new: str, value: Any, cast: Any) -> None:
    table = lake.create_table("shop.casts", [("id", "long"), ("v", old)])
    table.append([{"id": 1, "v": value}, {"id": 2, "v": None}])
    table.cast_column("v", new)
    assert column(table, "v") == {1: cast, 2: None}


def test_defaults_and_an_empty_table_are_cast(lake: Lake) -> None:
    table = lake.create_table("shop.defaults", [("id", "long", False)])
    table.append([{"id": 1}])
    table.add_column("level", "string", default="7", required=True)
    table.cast_column("level", "int")
    table.append([{"id": 2}, {"id": 3, "level": 1}])
    assert column(table, "level") == {1: 7, 2: 7, 3: 1}
    assert not table.schema.field("level").nullable
    empty = lake.create_table("shop.empty", [("id", "long"), ("v", "string")])
    empty.cast_column("v", "int")
    empty.append([{"id": 1, "v": 5}])
    assert column(empty, "v") == {1: 5}


def during_rewrite(monkeypatch: pytest.MonkeyPatch, change: Callable[[], Any]) -> list[int]:
    """Have `change` happen after the first rewrite of segments, before it is committed."""
    rewrite, runs = casting._rewrite, []

    def racing(*args: Any) -> Any:
        written = rewrite(*args)
        runs.append(len(written))
        if len(runs) == 1:
            thread = threading.Thread(target=change)  # as another process: not the thread that holds the table
            thread.start()
            thread.join()
        return written

    monkeypatch.setattr(casting, "_rewrite", racing)
    return runs


@everywhere
def test_rows_that_come_and_go_during_a_cast_are_in_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, open_lake: OpenLake
) -> None:
    table = lake.create_table("shop.raced", [("id", "long"), ("text", "string")])
    table.append([{"id": n, "text": str(n)} for n in range(4)])
    other = open_lake().table("shop.raced")

    def change() -> None:
        other.append([{"id": 9, "text": "9"}])
        other.delete_where("id = 2")

    runs = during_rewrite(monkeypatch, change)
    table.cast_column("text", "int")
    assert len(runs) == 2
    assert column(table, "text") == {0: 0, 1: 1, 3: 3, 9: 9}


def test_a_compaction_during_a_cast_is_met(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("shop.raced", [("id", "long"), ("text", "string")])
    for n in range(4):
        table.append([{"id": n, "text": str(n)}])
    during_rewrite(monkeypatch, lambda: table.compact(everything=True))
    table.cast_column("text", "int")
    assert column(table, "text") == {n: n for n in range(4)}


@everywhere
def test_an_append_prepared_before_a_cast_is_a_conflict_and_not_a_loss(
    lake: Lake, open_lake: OpenLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("shop.raced", [("id", "long"), ("text", "string")])
    table.append([{"id": 1, "text": "1"}])
    late = open_lake().table("shop.raced")
    commit = late._context.committer.commit

    def racing(*args: Any, **options: Any) -> Any:
        table.cast_column("text", "int")
        return commit(*args, **options)

    monkeypatch.setattr(late._context.committer, "commit", racing)
    with pytest.raises(Conflict, match="cast"):
        late.append([{"id": 2, "text": "2"}])
    assert column(table, "text") == {1: 1}
    monkeypatch.undo()
    late.append([{"id": 2, "text": 2}])
    assert column(table, "text") == {1: 1, 2: 2}


@everywhere
def test_a_cast_without_its_rows_is_refused(lake: Lake, table: Table) -> None:
    state = table.state()
    with pytest.raises(Conflict, match="rewritten by the cast"):
        lake.catalog.commit([TableCommit(state.id, state.version, AlterSchema((CastColumn("text", "int"),)))])
    assert table.state().schema_id == state.schema_id


def test_regions_that_came_during_a_cast_are_held_too(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [("tenant", "string", False), ("id", "int", False), ("text", "string")]
    table = lake.create_table(
        "shop.split", columns, primary_key=["tenant", "id"], properties={"moulin.regions": "tenant"}
    )
    table.append([{"tenant": "a", "id": 1, "text": "1"}])
    runs = during_rewrite(monkeypatch, lambda: table.put({"tenant": "b", "id": 2, "text": "2"}))
    table.cast_column("text", "int")
    assert len(runs) == 2
    assert {row["tenant"]: row["text"] for row in table.scan().to_pylist()} == {"a": 1, "b": 2}
    table.flush()
    assert table.get(("b", 2)) == {"tenant": "b", "id": 2, "text": 2}


def test_a_cast_reads_the_same_from_manifests_alone(tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", [("id", "long", False), ("text", "string")], primary_key=["id"])
        before = table.append([{"id": n, "text": str(n)} for n in range(4)]).version
        table.cast_column("text", "int")
    with Lake.open_replica(tmp_path / "lake") as replica:
        assert column(replica.table("shop.t"), "text") == {n: n for n in range(4)}
        assert column(replica.table("shop.t").at(before), "text") == {n: str(n) for n in range(4)}


def test_indexes_of_other_columns_stay_and_those_of_the_column_go(lake: Lake, table: Table) -> None:
    table.create_index("number", name="kept")
    table.create_index("text", name="gone")
    table.cast_column("text", "int")
    assert [info.name for info in table.indexes()] == ["kept"]
    assert table.scan(["id"], where="number = 7").to_pylist() == [{"id": 7}]
    table.update_indexes()
    assert table.scan(["id"], where="number = 7").to_pylist() == [{"id": 7}]
