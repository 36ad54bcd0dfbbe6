"""A table as a Python collection, as a dataset of pyarrow, and as notebooks show it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import moulin
from moulin.config import Config
from moulin.errors import Closed, FailedPrecondition, InvalidInput, Unsupported
from moulin.lake import Lake
from moulin.model.columns import compute as pc
from moulin.settings import Settings
from moulin.table.table import Table
from tests.table.conftest import OpenLake, rows

COLUMNS = [("id", "long", False), ("region", "string"), ("amount", "double")]


@pytest.fixture
def users(lake: Lake) -> Table:
    return lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])


def test_rows_by_key_are_in_brackets(users: Table) -> None:
    users.put({"name": "ann", "age": 41})
    assert users["ann"] == {"name": "ann", "age": 41}
    assert "ann" in users
    assert "bob" not in users
    with pytest.raises(KeyError, match="bob"):
        users["bob"]


def test_a_table_is_true_when_empty_and_has_no_positions(users: Table) -> None:
    assert bool(users)
    with pytest.raises(TypeError, match="not iterable"):
        iter(users)  # type: ignore[call-overload]


def test_brackets_need_a_primary_key(orders: Table) -> None:
    with pytest.raises(FailedPrecondition, match="no primary key"):
        orders[1]


def test_a_with_block_closes_a_table(lake: Lake, users: Table) -> None:
    with lake.table("shop.users") as table:
        table.put({"name": "ann", "age": 41})
    with pytest.raises(Closed):
        table.put({"name": "bob", "age": 12})
    assert lake.table("shop.users")["ann"]["age"] == 41


def test_rows_come_in_every_form(orders: Table) -> None:
    orders.append(rows(1, 3))
    assert orders.count() == 3
    assert orders.count("id > 1") == 2
    assert orders.head(2).num_rows == 2
    assert orders.to_arrow(["id"], "id > 1").to_pydict() == {"id": [2, 3]}
    assert orders.to_polars(["id"])["id"].to_list() == [1, 2, 3]
    assert orders.to_pandas(["id"])["id"].tolist() == [1, 2, 3]
    assert sum(batch.num_rows for batch in orders.scan()) == 3
    assert duckdb.sql("select count(*) from orders").fetchall() == [(3,)]
    assert pa.table(orders).num_rows == 3


def test_the_head_of_a_scan_keeps_its_order_and_its_limit(orders: Table) -> None:
    orders.append(rows(1, 5))
    assert orders.scan(["id"], order_by="id desc").head(2).to_pydict() == {"id": [5, 4]}
    assert orders.scan(["id"], limit=1).head(2).num_rows == 1
    assert orders.scan().head(0).num_rows == 0
    with pytest.raises(InvalidInput, match="zero rows or more"):
        orders.scan().head(-1)


def test_the_head_of_a_reversed_scan_has_the_last_keys(users: Table) -> None:
    users.put_batch([{"name": name, "age": 1} for name in "abcd"])
    users.flush()
    users.put({"name": "e", "age": 1})
    assert users.scan(["name"], reverse=True).head(2)["name"].to_pylist() == ["e", "d"]


def test_a_table_can_be_appended_to_another(lake: Lake, orders: Table) -> None:
    orders.append(rows(1, 3))
    other = lake.create_table("shop.copy", orders.schema)
    other.append(orders)
    assert other.count() == 3


def test_datasets_and_lazy_frames_are_appended(lake: Lake, orders: Table, tmp_path: Path) -> None:
    orders.append(rows(1, 3))
    pq.write_table(orders.to_arrow(), tmp_path / "rows.parquet")
    copied = lake.create_table("shop.copied", orders.schema)
    found = ds.dataset(tmp_path / "rows.parquet")
    for data in (found, found.scanner(), pl.scan_parquet(tmp_path / "rows.parquet"), orders.lazy(), orders.dataset()):
        assert copied.append(data).rows_added == 3
    assert copied.append(pl.LazyFrame({"id": [9], "more": ["text"]}), evolve=True).rows_added == 1
    assert copied.count("more = 'text'") == 1
    with pytest.raises(InvalidInput, match="pyarrow dataset"):
        copied.append(3)


# Datasets


def test_filters_of_duckdb_and_polars_reach_the_scan(orders: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for first in (1, 11, 21):
        orders.append(rows(first, 10))
    planned: list[int] = []
    scan = Table.scan

    def seen(self: Table, *args: Any, **options: Any) -> Any:
        made = scan(self, *args, **options)
        planned.append(len(made.plan().segments))
        return made

    monkeypatch.setattr(Table, "scan", seen)
    dataset = orders.dataset()
    assert duckdb.sql("select count(*) from dataset where id >= 25").fetchall() == [(6,)]
    assert orders.lazy().filter(pl.col("id") == 12).select("id").collect().rows() == [(12,)]
    assert dataset.count_rows(pc.field("id") < 3) == 2
    assert planned == [1, 1, 1]


NAN = float("nan")


@pytest.mark.parametrize(
    "condition",
    [
        pl.col("d") > 1,
        pl.col("d") >= NAN,
        pl.col("d") != NAN,
        ~(pl.col("d") <= 1),
        ~(pl.col("f") < 1.5) & (pl.col("i") > 0),
        pl.col("d").is_between(0, NAN),
        pl.col("d").is_in([1.0, NAN]),
        pl.col("d").is_nan() | (pl.col("i") == 2),
        pl.col("s").is_in(["a", None]),
        ~pl.col("s").is_in(["a", None]),
        ~pl.col("i").is_in([1]),
        pl.col("i").eq_missing(None),
        pl.col("i").ne_missing(2),
        (pl.col("i") > 1.5) | pl.col("s").is_null(),
        pl.col("s").str.starts_with("a"),
    ],
    ids=str,
)
def test_a_lazy_frame_keeps_the_rows_that_polars_keeps(lake: Lake, condition: pl.Expr) -> None:
    """For Arrow, which polars hands its filters to, NaN is greater than nothing and null may be in a list."""
    columns = [("i", "long"), ("d", "double"), ("f", "float"), ("s", "string")]
    table = lake.create_table("shop.numbers", columns)
    given = [(1, NAN, 1.5, "a"), (2, 1.0, NAN, None), (3, None, None, ""), (None, -0.0, 0.0, "b"), (4, 2.0, 9.0, "ab")]
    for row in given:
        table.append([dict(zip("idfs", row, strict=True))])
    expected = pl.DataFrame(table.to_arrow()).filter(condition)
    found = table.lazy().filter(condition)
    assert sorted(map(repr, found.collect().rows())) == sorted(map(repr, expected.rows()))
    assert found.select(pl.len()).collect().item() == expected.height
    assert found.head(1).collect().height == min(1, expected.height)
    assert set(found.select("s").collect()["s"]) == set(expected["s"])


def test_a_dataset_shows_what_was_put_since(users: Table) -> None:
    dataset = users.dataset()
    users.put({"name": "ann", "age": 41})
    assert dataset.to_table().num_rows == 1
    assert users.lazy().select("age").collect().rows() == [(41,)]


def test_a_dataset_computes_columns_as_pyarrow_does(orders: Table) -> None:
    orders.append(rows(1, 3))
    found = orders.dataset().to_table(columns={"twice": pc.field("id") + pc.field("id")}, filter=pc.field("id") > 1)
    assert found.to_pydict() == {"twice": [4, 6]}
    assert orders.dataset().filter(pc.field("id") > 1).filter(pc.field("id") < 3).count_rows() == 1
    assert orders.dataset().take([2, 0])["id"].to_pylist() == [3, 1]


@pytest.mark.parametrize("method", ["get_fragments", "sort_by", "join", "replace_schema", "__reduce__"])
def test_what_would_read_files_is_refused(orders: Table, method: str) -> None:
    with pytest.raises(Unsupported):
        getattr(orders.dataset(), method)()


@pytest.fixture(scope="module")
def deleted_rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Table, pa.Table]]:
    """A table of several segments with deleted rows, and its rows."""
    with moulin.connect(tmp_path_factory.mktemp("lake")) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.rows", COLUMNS)
        for first in range(0, 40, 10):
            table.append(
                [
                    {"id": i, "region": None if i % 7 == 0 else "ab"[i % 2], "amount": i / 4}
                    for i in range(first, first + 10)
                ]
            )
        table.delete_where("id in (3, 17, 18, 39)")
        yield table, table.to_arrow()


_COMPARED = st.one_of(
    st.tuples(st.just("id"), st.sampled_from(["<", ">=", "=", "<>"]), st.integers(-1, 41).map(str)),
    st.tuples(st.just("region"), st.sampled_from(["=", "<", "<>"]), st.sampled_from(["'a'", "'b'", "'c'"])),
    st.tuples(st.just("amount"), st.sampled_from([">", "<="]), st.sampled_from(["0.0", "2.5", "9.75"])),
    st.tuples(st.sampled_from(["region", "id"]), st.just("is"), st.sampled_from(["null", "not null"])),
).map(" ".join)


@given(st.lists(st.tuples(st.sampled_from(["and", "or"]), _COMPARED), min_size=1, max_size=4))
def test_duckdb_gets_from_the_dataset_what_it_gets_from_all_rows(
    deleted_rows: tuple[Table, pa.Table], terms: list[tuple[str, str]]
) -> None:
    table, everything = deleted_rows
    dataset = table.dataset()
    where = terms[0][1] + "".join(f" {join} {term}" for join, term in terms[1:])
    text = f"select id, region from {{}} where {where} order by id"
    assert dataset.schema == everything.schema
    found = duckdb.sql(text.format("dataset")).fetchall()
    assert found == duckdb.sql(text.format("everything")).fetchall()


# Notebooks


def test_a_notebook_shows_lakes_tables_scans_and_history(lake: Lake, orders: Table) -> None:
    orders.append([{"id": 1, "region": "<b>&"}])
    assert "shop.orders" in lake._repr_html_()
    assert "region" in orders._repr_html_()
    shown = orders.scan(["id", "region"], "id > 0")._repr_html_()
    assert "&lt;b&gt;&amp;" in shown
    assert "<b>" not in shown
    assert repr(orders.scan(["id"], "id > 0", limit=3)) == (
        f"<Scan of shop.orders at version {orders.version}, columns=['id'], where='id > 0', limit=3>"
    )


def test_a_notebook_shows_what_was_closed(open_lake: OpenLake, orders: Table) -> None:
    lake = open_lake()
    table = lake.table("shop.orders")
    table.close()
    assert "closed" in table._repr_html_()
    lake.close()
    assert "closed" in lake._repr_html_()


# Lakes


def test_the_tables_of_all_databases_are_listed(lake: Lake, orders: Table) -> None:
    lake.create_database("other")
    lake.create_table("other.things", [("id", "long")])
    assert {(one.database, one.name) for one in lake.tables()} >= {("shop", "orders"), ("other", "things")}
    assert [one.name for one in lake.tables("other")] == ["things"]


def test_an_editor_knows_the_settings() -> None:
    kinds = {field.name: type(field.default) for field in dataclasses.fields(Config)}
    hints = get_type_hints(Settings)
    assert list(hints) == list(kinds)
    assert all(kind in (hints[name], str) for name, kind in kinds.items())
    assert all(hints[name] in (str, str | Path) for name, kind in kinds.items() if kind is str)


def test_every_exported_name_is_there() -> None:
    assert all(getattr(moulin, name) is not None for name in moulin.__all__)
