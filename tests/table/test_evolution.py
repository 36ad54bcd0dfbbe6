"""append(..., evolve=True): the schema grows with the rows, in one version, whoever else writes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import AlreadyExists, Conflict, InvalidInput
from moulin.lake import Lake
from moulin.model.operations import Kind
from moulin.table.table import Table
from tests.table.conftest import BACKENDS, SERVED, OpenLake

COLUMNS = [
    ("id", "int", False),
    ("price", "float"),
    ("cost", "decimal(5,2)"),
    ("day", "date"),
    ("at", "struct<x: int>"),
]


everywhere = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)


@pytest.fixture(params=[(), ("id",)], ids=["event", "keyed"])
def table(request: pytest.FixtureRequest, lake: Lake) -> Table:
    return lake.create_table("shop.things", COLUMNS, primary_key=request.param)


def by_id(table: Any) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in table.scan().to_pylist()}


@everywhere
def test_new_columns_come_with_the_rows_in_one_version(table: Table) -> None:
    before = table.append([{"id": 1}]).version
    done = table.append(pa.table({"id": [2], "note": ["n"], "tags": [["a", "b"]]}), evolve=True)
    assert (done.version, done.rows_added) == (before + 1, 1)
    assert table.schema.names[-2:] == ["note", "tags"]
    assert table.schema.field("note").nullable
    assert by_id(table)[1]["note"] is None
    assert (by_id(table)[2]["note"], by_id(table)[2]["tags"]) == ("n", ["a", "b"])
    assert "note" not in table.at(before).schema.names
    assert [info.kind for info in table.history(2)] != [Kind.ALTER_SCHEMA] * 2


@everywhere
def test_types_of_arrow_data_widen_columns(table: Table) -> None:
    table.append([{"id": 1, "price": 1.5, "cost": "1.25", "day": date(2024, 1, 2), "at": {"x": 1}}])
    wide = pa.table(
        {
            "id": pa.array([2**40], pa.int64()),
            "price": pa.array([0.1], pa.float64()),
            "cost": pa.array([Decimal("123456.5")], pa.decimal128(7, 1)),
            "day": pa.array([datetime(2024, 1, 3, 4)], pa.timestamp("us")),
            "at": pa.array([{"x": 2**33, "y": "new"}], pa.struct([("x", pa.int64()), ("y", pa.string())])),
        }
    )
    table.append(wide, evolve=True)
    assert [str(field.type) for field in table.schema][:4] == ["int64", "double", "decimal128(8, 2)", "timestamp[us]"]
    assert by_id(table) == {
        1: {"id": 1, "price": 1.5, "cost": Decimal("1.25"), "day": datetime(2024, 1, 2), "at": {"x": 1, "y": None}},
        2**40: {
            "id": 2**40,
            "price": 0.1,
            "cost": Decimal("123456.50"),
            "day": datetime(2024, 1, 3, 4),
            "at": {"x": 2**33, "y": "new"},
        },
    }


def test_python_values_widen_a_column_only_when_they_must(table: Table) -> None:
    table.append([{"id": 1, "price": 0.1, "at": {"x": 1, "y": [1]}}], evolve=True)
    assert [str(table.schema.field(name).type) for name in ("id", "price")] == ["int32", "float"]
    assert str(table.schema.field("at").type) == "struct<x: int32, y: list<element: int64>>"
    table.append([{"id": 2**31}], evolve=True)
    assert str(table.schema.field("id").type) == "int64"


def test_a_key_that_is_widened_is_still_one_key(lake: Lake) -> None:
    table = lake.create_table("shop.keys", COLUMNS, primary_key=["id"])
    table.append([{"id": n, "price": 1.0} for n in range(5)])
    table.put({"id": 5, "price": 1.0})
    table.append(pa.table({"id": pa.array([3, 5, 2**40], pa.int64()), "price": [2.0, 2.0, 2.0]}), evolve=True)
    assert {n: row["price"] for n, row in by_id(table).items()} == {0: 1, 1: 1, 2: 1, 3: 2, 4: 1, 5: 2, 2**40: 2}
    assert table.get(3)["price"] == 2.0
    assert table.scan().count() == 7


@everywhere
def test_a_type_that_cannot_be_widened_is_refused_and_nothing_changes(table: Table) -> None:
    version, schema = table.version, table.schema
    for data, name in (
        (pa.table({"id": ["x"], "new": [1]}), "id"),
        (pa.table({"id": [1], "day": pa.array([1.5])}), "day"),
        ([{"id": 1, "price": "much", "new": 1}], "price"),
        (pa.table({"id": [1], "none": pa.nulls(1)}), "none"),
        ([{"id": 1, "mixed": 1}, {"id": 2, "mixed": "one"}], "mixed"),
        ([{"id": 1, "_row_id": 1}], "_row_id"),
    ):
        with pytest.raises(InvalidInput, match=name):
            table.append(data, evolve=True)
    with pytest.raises(AlreadyExists, match="price"):
        table.append(pa.table({"id": [1], "Price": [1]}), evolve=True)
    assert (table.version, table.schema) == (version, schema)


@pytest.mark.parametrize("wrong", ["text", 5, pa.array([1]), pa.chunked_array([[1]]), [1], object()])
def test_data_that_cannot_be_read_is_refused_as_by_any_append(table: Table, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        table.append(wrong, evolve=True)


def test_rows_without_evolve_are_refused_as_before(table: Table) -> None:
    with pytest.raises(InvalidInput, match="new"):
        table.append([{"id": 1, "new": 1}])


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "data",
    [
        [{"id": 7, "new": "a"}],
        {"id": [7], "new": ["a"]},
        pa.table({"id": [7], "new": ["a"]}),
        pa.record_batch({"id": [7], "new": ["a"]}),
        [pa.table({"id": [7]}), pa.table({"new": ["b"], "id": [8]})],
    ],
    ids=["dicts", "columns", "table", "batch", "tables"],
)
def test_every_form_of_rows_may_evolve(table: Table, data: Any) -> None:
    table.append(data, evolve=True)
    assert by_id(table)[7]["id"] == 7
    assert table.schema.names[-1] == "new"


def test_a_stream_may_evolve(table: Table) -> None:
    source = pa.table({"id": [7, 8], "new": ["a", "b"]})
    table.append(source.to_reader(), evolve=True)
    table.append(iter([{"id": 9, "newer": 1}]), evolve=True)
    assert {n: row["new"] for n, row in by_id(table).items()} == {7: "a", 8: "b", 9: None}


def test_rows_without_any_may_bring_columns(table: Table) -> None:
    version = table.version
    table.append(pa.table({"id": pa.array([], pa.int32()), "new": pa.array([], pa.string())}), evolve=True)
    assert (table.version, table.schema.names[-1]) == (version + 1, "new")


def test_a_request_that_evolves_is_done_once(table: Table) -> None:
    rows = [{"id": 7, "new": "a"}]
    first = table.append(rows, evolve=True, request_id="once")
    assert table.append(rows, evolve=True, request_id="once").version == first.version
    assert table.scan().count() == 1


@pytest.mark.sample(2)
@everywhere
def test_two_that_evolve_at_once_lose_no_column_and_no_row(table: Table) -> None:
    def write(n: int) -> int:
        for attempt in range(50):
            try:
                rows = [{"id": n, f"own{n}": f"v{n}", "shared": n}]
                table.append(rows if n % 2 else pa.Table.from_pylist(rows).to_reader(), evolve=True)
            except Conflict:
                continue
            return attempt
        raise AssertionError("never committed")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(8)))
    found = by_id(table)
    assert {n: (row["shared"], row[f"own{n}"]) for n, row in found.items()} == {n: (n, f"v{n}") for n in range(8)}
    assert all(row[f"own{m}"] is None for n, row in found.items() for m in range(8) if m != n)


@everywhere
def test_a_schema_that_another_altered_is_taken_up(table: Table, open_lake: OpenLake, monkeypatch: Any) -> None:
    """The other's column gets the field id that this append foresaw for its own."""
    other = open_lake().table("shop.things")
    commit, raced = table._context.committer.commit, []

    def late(*args: Any, **options: Any) -> Any:
        if not raced:
            raced.append(other.add_column("first", "string", default="d"))
        return commit(*args, **options)

    monkeypatch.setattr(table._context.committer, "commit", late)
    table.append([{"id": 1, "second": 5}], evolve=True)
    assert raced
    assert {name: by_id(table)[1][name] for name in ("first", "second")} == {"first": "d", "second": 5}


def test_what_evolved_reads_the_same_from_manifests_alone(tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.things", COLUMNS, primary_key=["id"])
        table.append([{"id": 1}])
        table.append([{"id": 2, "new": {"a": 1}}], evolve=True)
        table.append([{"id": 3, "new": {"a": 2, "b": "x"}}], evolve=True)
        found = by_id(table)
    with Lake.open_replica(tmp_path / "lake") as replica:
        assert by_id(replica.table("shop.things")) == found


VALUES = {
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "text": st.text(max_size=3),
    "float": st.floats(width=32, allow_nan=False),
    "list": st.lists(st.booleans(), max_size=2),
}
ARROW = {
    "int": pa.int32(),
    "long": pa.int64(),
    "text": pa.string(),
    "float": pa.float32(),
    "list": pa.list_(pa.bool_()),
}


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[dict[str, str], list[dict[str, Any]]]]:
    """Batches of rows over columns whose names say which types they take: `int` columns may come as long later."""
    made = []
    for _ in range(draw(st.integers(1, 5))):
        names = draw(st.lists(st.sampled_from(["n0", "n1", "text0", "float0", "list0"]), unique=True, max_size=4))
        kinds = {name: draw(st.sampled_from(["int", "long"])) if name[0] == "n" else name.rstrip("0") for name in names}
        ids = draw(st.lists(st.integers(0, 6), unique=True, max_size=4))
        made.append((kinds, [{"id": n, **{c: draw(st.none() | VALUES[k]) for c, k in kinds.items()}} for n in ids]))
    return made


@settings(max_examples=25, deadline=None)
@given(appended=batches(), keyed=st.booleans())
def test_evolving_appends_follow_a_dict(
    tmp_path_factory: pytest.TempPathFactory, appended: list[tuple[dict[str, str], list[dict[str, Any]]]], keyed: bool
) -> None:
    with Lake.open(tmp_path_factory.mktemp("model") / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", [("id", "long", False)], primary_key=["id"] if keyed else [])
        model: list[dict[str, Any]] = []
        columns = ["id"]
        for kinds, rows in appended:
            schema = pa.schema([("id", pa.int64()), *((name, ARROW[kind]) for name, kind in kinds.items())])
            table.append(pa.Table.from_pylist(rows, schema), evolve=True)
            columns += [name for name in kinds if name not in columns]
            if keyed:
                model = [row for row in model if row["id"] not in {new["id"] for new in rows}]
            model += rows
        assert table.schema.names == columns
        wanted = [{name: row.get(name) for name in columns} for row in model]
        assert sorted(table.scan().to_pylist(), key=repr) == sorted(wanted, key=repr)
