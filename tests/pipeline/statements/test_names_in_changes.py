"""Names in statements that change rows: CTEs, aliases, quotes, parameters, and sources that read the target."""

from __future__ import annotations

from typing import Any

import pytest

from moulin import Lake, Table
from moulin.errors import InvalidInput, MoulinError

pytestmark = pytest.mark.spark


@pytest.fixture
def table(lake: Lake) -> Table:
    made = lake.create_table("shop.t", [("id", "long", False), ("n", "int"), ("name", "string")])
    made.append([{"id": number, "n": number * 10, "name": f"n{number}"} for number in range(4)])
    return made


def _rows(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan().to_pylist())


def _numbers(table: Table) -> dict[int, Any]:
    return {row["id"]: row["n"] for row in table.scan().to_pylist()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("with t as (select 9L id, 1 n) insert into shop.t (id, n) select * from t", {0: 0, 1: 10, 2: 20, 3: 30, 9: 1}),
        ("with t as (select 1L id) delete from shop.t where id in (select id from t)", {0: 0, 2: 20, 3: 30}),
        ("with t as (select 7 n) update shop.t set n = (select n from t) where id = 1", {0: 0, 1: 7, 2: 20, 3: 30}),
        (
            "with t as (select 1L id, 5 n), s as (select * from t) merge into shop.t using s on t.id = s.id "
            "when matched then update set n = s.n",
            {0: 0, 1: 5, 2: 20, 3: 30},
        ),
        (
            "delete from shop.t where id in (with t as (select 3L id) select id from t union select id from shop.t "
            "where n = 0)",
            {1: 10, 2: 20},
        ),
        ("delete from shop.t where exists (with shop as (select 2L id) select 1 from shop where shop.id = t.id)", None),
        (
            "insert into shop.t (id, n) with o as (select max(id) id from shop.t) select id + 1, "
            "(with o as (select 4 id) select id from o) from o",
            {0: 0, 1: 10, 2: 20, 3: 30, 4: 4},
        ),
    ],
)
def test_a_cte_is_never_taken_for_a_table(lake: Lake, table: Table, text: str, expected: dict[int, int] | None) -> None:
    lake.sql(text)
    assert _numbers(table) == (expected or {0: 0, 1: 10, 3: 30})


def test_comments_case_and_a_semicolon_change_nothing(lake: Lake, table: Table) -> None:
    lake.sql("/* update shop.o */ UPDATE Shop.T -- shop.x\n AS Tt SET N = tT.n + 1 /* ' */ WHERE `iD` <= 1 ;")
    lake.sql("delete from moulin.shop.t where moulin.shop.t.id = 2 and shop.t.n = 20 and t.name = 'n2'")
    assert _numbers(table) == {0: 1, 1: 11, 3: 30}


def test_a_column_may_have_any_name(lake: Lake) -> None:
    names = ["a b", "a-b", "it's", 'q"q', "Üm", ", ", "select", "_x", "a", "value--", "/*"]
    table = lake.create_table("shop.odd names", [("id", "long"), *((name, "int") for name in names)])
    table.append([{"id": number, **dict.fromkeys(names, number)} for number in range(3)])
    expected = {number: dict.fromkeys(names, number) for number in range(3)}

    def quoted(name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    for index, name in enumerate(names):
        other = names[index - 1]
        lake.sql(
            f"update shop.`odd names` set {quoted(name)} = {quoted(other)} + 100, {quoted(other)} = "
            f"`odd names`.{quoted(name)} where {quoted(name)} = 1 and id = 1"
        )
        if expected[1][name] == 1:
            expected[1] |= {name: expected[1][other] + 100, other: 1}
    listed = ", ".join(map(quoted, names))
    lake.sql(f"insert into shop.`odd names` (id, {listed}) select id + 10, {listed} from shop.`odd names` where id = 1")
    expected[11] = expected[1]
    given = ", ".join(f"{quoted(name)} = s.{quoted(name)} + 1" for name in names)
    lake.sql(
        f"merge into shop.`odd names` `t t` using shop.`odd names` s on `t t`.{quoted(names[0])} = s.{quoted(names[1])}"
        f" and `t t`.id = s.id and s.id in (0, 2) when matched then update set {given}"
    )
    expected[0], expected[2] = dict.fromkeys(names, 1), dict.fromkeys(names, 3)
    assert {row.pop("id"): row for row in table.scan().to_pylist()} == expected


def test_statements_take_parameters(lake: Lake, table: Table) -> None:
    lake.sql("insert into shop.t values (:id, :n, :name)", {"id": 9, "n": None, "name": "it's; -- :id"})
    lake.sql("update shop.t set n = n + ? where id in (?, ?)", [5, 0, 1])
    lake.sql("delete from shop.t where name = :name", args={"name": "n2"})
    lake.sql(
        "merge into identifier(:table) t using (select :id as id, :n as n) s on t.id = s.id when matched and s.n > "
        ":least then update set n = s.n when not matched then insert (id, n) values (s.id, s.n)",
        {"table": "shop.t", "id": 3, "n": 7, "least": 6},
    )
    assert _rows(table) == [(0, 5, "n0"), (1, 15, "n1"), (3, 7, "n3"), (9, None, "it's; -- :id")]


def test_a_source_may_read_the_target(lake: Lake, table: Table) -> None:
    lake.sql(
        "merge into shop.t using (select id + 1 as id, n from shop.t) as s on t.id = s.id when matched then update "
        "set n = t.n + s.n when not matched then insert (id, n) values (s.id, -1) "
        "when not matched by source then delete"
    )
    assert _numbers(table) == {1: 10, 2: 30, 3: 50, 4: -1}
    lake.sql(
        "merge into shop.t using shop.t as t2 on t.id = t2.n when not matched then insert (id, n) values (t2.n, 0)"
    )
    assert _numbers(table) == {1: 10, 2: 30, 3: 50, 4: -1, 10: 0, 30: 0, 50: 0, -1: 0}
    lake.sql("insert into shop.t select id + 100, n, name from shop.t where id > 9")
    lake.sql("update shop.t set n = (select count(*) from shop.t where id > 100) where id > 100")
    assert {key: n for key, n in _numbers(table).items() if key > 100} == {110: 3, 130: 3, 150: 3}


def test_a_source_may_be_a_view_an_old_version_or_a_temporary_view(lake: Lake, table: Table) -> None:
    old = table.version
    lake.sql("update shop.t set n = null")
    lake.create_table("shop.u", [("id", "long"), ("n", "int"), ("name", "string")]).append([{"id": 5, "n": 50}])
    lake.create_view("shop.both", ["shop.t", "shop.u"])
    lake.sql(
        f"merge into shop.t using (select * from shop.t version as of {old}) as was on t.id = was.id and was.n > 10 "
        "when matched then update set n = was.n"
    )
    assert _numbers(table) == {0: None, 1: None, 2: 20, 3: 30}
    lake.sql("merge into shop.t using shop.both on t.id = both.id when not matched then insert *")
    assert _numbers(table) == {0: None, 1: None, 2: 20, 3: 30, 5: 50}
    lake.spark().createDataFrame([(5,)], "id long").createOrReplaceTempView("gone")
    lake.sql("delete from shop.t where id in (select id from gone)")
    lake.sql(f"delete from shop.t where n not in (select n from shop.t version as of {old} where id = 2)")
    assert _numbers(table) == {0: None, 1: None, 2: 20}


def test_sub_queries_may_be_nested_and_look_at_the_row_outside(lake: Lake, table: Table) -> None:
    lake.sql(
        "update shop.t set n = (select sum(o.n) from shop.t o where o.id <= t.id and o.id in "
        "(select max(i.id) from shop.t i where i.id < o.id group by i.id)), name = coalesce((select max(q.name) from "
        "shop.t q where q.id = t.id - 1), name) where exists (select 1 from shop.t e where e.id = t.id + 0 and e.n > 0)"
    )
    assert _rows(table)[0] == (0, 0, "n0")
    assert [row[2] for row in _rows(table)] == ["n0", "n0", "n1", "n2"]
    lake.sql("delete from shop.t where id > (select avg(x.id) from shop.t x) and id not in (select 3)")
    assert sorted(_numbers(table)) == [0, 1, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("update shop.t set missing = 1", "missing"),
        ("update shop.t set n = missing", "missing"),
        ("update shop.t set n = 1, n = 2", "n"),
        ("update shop.t set n = 'many'", "n"),
        ("update shop.t set n = (select id from shop.t)", "More than one row"),
        ("delete from shop.t where missing = 1", "missing"),
        ("delete from shop.t where n", ""),
        ("merge into shop.t using shop.t s on t.id = s.id when matched then update set n = n", "mbiguous"),
        ("merge into shop.t using shop.t s on id = 1 when matched then delete", "mbiguous"),
        ("merge into shop.t using (select 1 as x) s on t.id = s.x when not matched then insert *", ""),
        ("merge into shop.t using shop.t s on t.id = s.id when not matched then insert (id) values (t.id)", ""),
        ("merge into shop.t using shop.t s on t.id = s.id when not matched then insert (id, n) values (1)", ""),
        ("insert into shop.t (id, nn) values (1, 2)", "nn"),
        ("insert into shop.t (id, id) values (1, 2)", "id"),
        ("insert into shop.t values (1, 2)", "2 columns"),
        ("insert into shop.t by name select 1L as id, 2 as m", "m"),
        ("insert into shop.t values (1, 'x', 'y')", "n"),
        ("insert into shop.t select * from shop.missing", "missing"),
        ("delete from shop.t version as of 1 where id = 1", ""),
        ("update shop.t version as of 1 set n = 1", ""),
        ("insert into shop.t version as of 1 values (1, 2, 'x')", ""),
        ("delete from shop.t where id in (delete from shop.t)", ""),
        ("insert into shop.t values (1, 2, 'x'); delete from shop.t", ""),
    ],
)
def test_a_statement_that_cannot_be_understood_changes_nothing(
    lake: Lake, table: Table, text: str, message: str
) -> None:
    before = table.version
    with pytest.raises(MoulinError) as refused:
        lake.sql(text)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert table.version == before


@pytest.mark.parametrize(
    "text",
    [
        "insert into shop.v values (1, 2, 'x')",
        "insert overwrite shop.v values (1, 2, 'x')",
        "update shop.v set n = 1",
        "delete from shop.v",
        "merge into shop.v as t using shop.t as s on t.id = s.id when matched then delete",
    ],
)
def test_a_view_is_not_written_to(lake: Lake, table: Table, text: str) -> None:
    lake.create_view("shop.v", ["shop.t"])
    before = lake.version
    with pytest.raises(InvalidInput, match="is a view"):
        lake.sql(text)
    assert lake.version == before


@pytest.mark.parametrize(
    "text",
    [
        "update shop.t set n = 1, N = 2",
        "merge into shop.t using (select 1L as id) s on t.id = s.id when matched then update set n = 1, N = 2",
    ],
)
def test_a_column_that_is_assigned_twice_is_named(lake: Lake, text: str) -> None:
    lake.create_table("shop.t", [("id", "long"), ("n", "long")]).append([{"id": 1, "n": 1}])
    with pytest.raises(InvalidInput, match="Multiple assignments for 'n'"):
        lake.sql(text)


@pytest.mark.parametrize(
    "text", ["select _metadata.file_path from shop.t", "delete from shop.t where _metadata.file_path = ''"]
)
def test_who_asks_for_files_that_spark_cannot_describe_is_told_what_to_ask_for(lake: Lake, text: str) -> None:
    table = lake.create_table("shop.t", [("id", "long")])
    table.append([{"id": 1}, {"id": 2}])
    lake.sql(text)
    table.append([{"id": 3}])
    table.compact()
    table.append([{"id": 4}, {"id": 5}])
    table.delete_where("id in (1, 4)")  # two scans: one of the compacted segment, one of the fresh one
    with pytest.raises(InvalidInput, match="Select _segment and _position instead"):
        lake.sql(text)
