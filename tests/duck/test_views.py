"""Views of the lake that are queries, as DuckDB shows them."""

from __future__ import annotations

import duckdb
import pytest

from moulin.lake import Lake
from moulin.model.entities import Representation, ViewQuery
from moulin.model.schema.schema import make_schema
from tests.duck.conftest import rows


@pytest.fixture(params=[256, 0], ids=["small", "large"])
def table(lake: Lake, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr("moulin.duck.views._WRITTEN_OUT", request.param)
    made = lake.create_table("d.t", [("id", "long"), ("name", "string"), ("tags", "list<string>")])
    made.append([{"id": n, "name": f"n{n}", "tags": ["a", f"b{n}"]} for n in range(3)])


def make(lake: Lake, name: str, text: str, *columns: tuple[str, str], dialect: str = "spark") -> None:
    query = ViewQuery((Representation(dialect, text),), make_schema(columns), {})
    lake.catalog.create_view("d", name, [], query=query)


@pytest.mark.usefixtures("table")
def test_a_query_of_spark_is_translated(lake: Lake) -> None:
    make(lake, "v", "select `id`, size(tags), name rlike '^n[12]' as late from d.t", *_COLUMNS)
    assert rows(lake.duckdb(), "FROM d.v WHERE id > 1") == [{"id": 2, "size(tags)": 2, "late": True}]


_COLUMNS = (("id", "long"), ("size(tags)", "int"), ("late", "boolean"))


@pytest.mark.usefixtures("table")
def test_a_text_for_duckdb_is_taken_as_it_is(lake: Lake) -> None:
    make(lake, "v", "FROM d.t SELECT count(*) AS n", ("n", "long"), dialect="duckdb")
    assert rows(lake.duckdb(), "FROM d.v") == [{"n": 3}]


@pytest.mark.usefixtures("table")
def test_views_may_name_views_that_are_listed_after_them(lake: Lake) -> None:
    make(lake, "a", "select n + 1 as n from d.b", ("n", "long"))
    make(lake, "b", "select max(n) as n from d.c", ("n", "long"))
    make(lake, "c", "select id as n from d.t where id < 2", ("n", "long"))
    connection = lake.duckdb()
    assert rows(connection, "FROM d.a") == [{"n": 2}]
    lake.drop_view("d.c")
    lake.duckdb(connection)
    with pytest.raises(duckdb.Error, match="View d.a cannot be read in DuckDB"):
        connection.execute("FROM d.a")
    make(lake, "c", "select 7L as n", ("n", "long"))
    assert rows(lake.duckdb(connection), "FROM d.a") == [{"n": 8}]


@pytest.mark.usefixtures("table")
def test_a_view_that_duckdb_cannot_read_says_why_and_spoils_no_other(lake: Lake) -> None:
    make(lake, "bad", "select no_such_function(id) as n from d.t", ("n", "long"))
    make(lake, "worse", "select from where", ("n", "long"))
    make(lake, "foreign", "select 1", ("n", "long"), dialect="trino")
    make(lake, "good", "select id as n from d.t", ("n", "long"))
    connection = lake.duckdb()
    assert len(rows(connection, "FROM d.good")) == 3
    for name, reason in (("bad", "no_such_function"), ("worse", "translated"), ("foreign", "no text")):
        with pytest.raises(duckdb.Error, match=f"(?is)View d.{name} cannot be read in DuckDB.*{reason}.*on Spark"):
            connection.execute(f"SELECT n FROM d.{name}")
    shown = connection.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'd'").fetchall()
    assert {name for (name,) in shown} == {"t", "bad", "worse", "foreign", "good"}
    assert ("id",) in connection.execute("SELECT column_name FROM information_schema.columns").fetchall()


@pytest.mark.usefixtures("table")
def test_columns_have_the_types_of_the_view(lake: Lake) -> None:
    make(lake, "v", "select id as a, 1 as b from d.t", ("a", "string"), ("b", "decimal(5, 2)"))
    found = lake.duckdb().execute("SELECT typeof(a), typeof(b) FROM d.v LIMIT 1").fetchall()
    assert found == [("VARCHAR", "DECIMAL(5,2)")]
