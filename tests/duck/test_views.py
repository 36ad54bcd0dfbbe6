"""Views of the lake that are queries, as DuckDB shows them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from moulin.lake import Lake
from moulin.model.entities import Representation, ViewHistory, ViewQuery, ViewVersion
from moulin.model.schema.schema import make_schema
from moulin.model.schema.values import Schema
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
    make(lake, "foreign", "select 1", ("n", "long"), dialect="no-such-engine")
    make(lake, "good", "select id as n from d.t", ("n", "long"))
    connection = lake.duckdb()
    assert len(rows(connection, "FROM d.good")) == 3
    for name, reason in (("bad", "no_such_function"), ("worse", "translated"), ("foreign", "not known")):
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


@pytest.mark.usefixtures("table")
def test_a_text_for_another_engine_is_translated(lake: Lake) -> None:
    make(lake, "v", "SELECT cardinality(tags) AS n FROM d.t WHERE id = 1", ("n", "long"), dialect="trino")
    assert rows(lake.duckdb(), "FROM d.v") == [{"n": 2}]


HOSTILE = (
    "select * from read_text('{file}')",
    "select * from '{file}'",
    'select * from "{file}"',
    'select * from d."../{file}"',
    "select content as x from read_blob('{file}')",
    'with "{file}" as (select * from "{file}") select * from "{file}"',
    'with a as (select * from "{file}"), "{file}" as (select 1) select * from a',
    'select (with "{file}" as (select 1 as x) select x from "{file}") as x, y.* from "{file}" y',
    "select 1 as x); copy (select 1) to '{file}'; select * from (select 1 as x",
    "select 1 as x; select 2",
    "select * from query('select 1')",
    "select * from query_table('{file}')",
    "select current_setting('temp_directory') as x",
    "select getvariable('secret') as x",
    "select * from duckdb_secrets()",
    "select * from information_schema.tables",
    "select * from duckdb_settings()",
    "select * from (show tables)",
    "select * from mine",
    "select * from memory.main.mine",
    "select unnest((select list(x) from read_csv('{file}') as r(x))) as x",
    "select count(*) as x from d.t, lateral (select * from glob('/*'))",
    "select * from moulin_table('d.t')",
    "select * from d.t at (version => 1)",
    "select nextval('s') as x",
)


@pytest.mark.usefixtures("table")
def test_a_hostile_text_reads_nothing_but_the_lake(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("x\nsecret\n")
    for number, text in enumerate(HOSTILE):
        for dialect in ("duckdb", "spark"):
            make(lake, f"{dialect}{number}", text.replace("{file}", str(file)), ("x", "string"), dialect=dialect)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE mine AS SELECT 'secret' AS x")
    connection.execute("SET VARIABLE secret = 'secret'")
    lake.duckdb(connection)
    for view in lake.views("d"):
        with pytest.raises(duckdb.Error, match=f"View d.{view.name} cannot be read in DuckDB"):
            connection.execute(f"FROM d.{view.name}")
    assert file.read_text() == "x\nsecret\n"


@pytest.mark.usefixtures("table")
def test_ordinary_queries_pass_the_check(lake: Lake) -> None:
    texts = (
        "with recursive n as (select 1 as i union all select i + 1 from n where i < 4) select max(i) as x from n",
        "select x from (select row_number() over (partition by name order by id desc) as x from d.t) limit 1",
        "select sum(u.v) as x from d.t, unnest([1, 2]) as u(v) where exists (select 1 from d.t b where b.id = t.id)",
        "(select 1 as x) union all (select 2) order by 1 limit 1 -- the first",
        "select list_transform([1, 2], lambda y: y + 1)[1] as x from d.t group by all having count(*) > 1",
        "select cast({'a': 1} as struct(a bigint)).a as x, * exclude (id) from d.t;",
        "from (values (1), (2)) v(x)",
    )
    for number, text in enumerate(texts):
        make(lake, f"v{number}", text, ("x", "long"), dialect="duckdb")
    connection = lake.duckdb()
    for number in range(len(texts)):
        assert rows(connection, f"SELECT count(x) AS n FROM d.v{number}")[0]["n"] > 0


@pytest.mark.usefixtures("table")
def test_names_without_a_database_belong_to_the_namespace_of_the_view(lake: Lake) -> None:
    lake.create_database("e")
    version = ViewVersion(
        1, 0, 0, {}, (Representation("duckdb", "select n.id as x from t n join ice.d.t using (id)"),), ("d",), "ice"
    )
    schema = Schema(*make_schema([("x", "long")]).fields, schema_id=0)
    history = ViewHistory(1, (version,), ((0, 1),), (schema,))
    query = ViewQuery(version.representations, schema, {}, history=history)
    lake.catalog.create_view("e", "v", [], query=query)
    assert len(rows(lake.duckdb(), "FROM e.v")) == 3


def test_a_view_on_a_branch_reads_the_branch(lake: Lake) -> None:
    lake.create_table("d.t", [("id", "long")]).append([{"id": 1}])
    make(lake, "v", "select count(*) as n from d.t", ("n", "long"))
    lake.branch("exp").table("d.t").append([{"id": 2}])
    connection = lake.duckdb(branches=["exp"])
    assert rows(connection, 'FROM "d@exp".v') == [{"n": 2}]
    assert rows(connection, "FROM d.v") == [{"n": 1}]


@pytest.mark.usefixtures("table")
def test_a_text_that_takes_long_to_translate_is_refused(lake: Lake) -> None:
    make(lake, "v", f"select {'float(' * 40}1{')' * 40} as n from d.t", ("n", "float"))
    connection = lake.duckdb()
    assert rows(connection, "SELECT id FROM d.t WHERE id = 1") == [{"id": 1}]
    with pytest.raises(duckdb.Error, match="in one another"):
        rows(connection, "FROM d.v")
