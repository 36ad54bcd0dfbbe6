"""Statements that change rows: TRUNCATE, DELETE, UPDATE and MERGE."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moulin import Lake, Table
from moulin.errors import InvalidInput, NotFound, PermissionDenied

pytestmark = pytest.mark.spark

Rows = Callable[..., list[dict[str, Any]]]
ITEMS = [("id", "long", False), ("name", "string"), ("amount", "int"), ("size", "struct<w: int, h: int>")]


@pytest.fixture(params=["event", "keyed"])
def items(request: pytest.FixtureRequest, lake: Lake) -> Table:
    key = {"primary_key": ["id"]} if request.param == "keyed" else {}
    table = lake.create_table("shop.items", ITEMS, **key)
    table.append([{"id": n, "name": f"n{n}", "amount": n, "size": {"w": n, "h": 1}} for n in range(5)])
    table.append([{"id": n, "name": f"n{n}", "amount": n, "size": {"w": n, "h": 1}} for n in range(5, 10)])
    return table


def run(lake: Lake, text: str, **more: Any) -> tuple[int, int, int]:
    """The rows that a statement inserted, updated and deleted."""
    (row,) = lake.sql(text, **more).collect()
    assert row.num_affected_rows == row.num_inserted_rows + row.num_updated_rows + row.num_deleted_rows
    return row.num_inserted_rows, row.num_updated_rows, row.num_deleted_rows


def column(table: Table, name: str) -> dict[int, Any]:
    return {row["id"]: row[name] for row in table.scan(columns=list({"id", name})).to_pylist()}


def test_truncate_empties_a_table_in_one_version(lake: Lake, orders: Table, rows: Rows) -> None:
    orders.append(rows(0, 3))
    before = orders.version
    assert run(lake, "truncate table shop.orders") == (0, 0, 3)
    assert (orders.scan().count(), orders.version) == (0, before + 1)


def test_update_computes_from_the_old_row_and_keeps_its_id(lake: Lake, items: Table) -> None:
    before, ids = items.version, column(items, "_row_id")
    assert run(lake, "update shop.items set amount = amount * 10, size.h = amount where id in (2, 7)") == (0, 2, 0)
    assert items.version == before + 1
    assert column(items, "amount") == {n: n for n in range(10)} | {2: 20, 7: 70}
    assert column(items, "size")[7] == {"w": 7, "h": 7}
    assert column(items, "_row_id") == ids
    assert items.changes(before).counts() == {"update_before": 2, "update_after": 2}


def test_update_takes_sub_queries_and_parameters(lake: Lake, items: Table) -> None:
    text = """
        update shop.items as i set name = (select max(name) from shop.items), amount = :amount
        where exists (select 1 from shop.items as o where o.id = i.id + 1 and o.amount > 8)"""
    assert run(lake, text, args={"amount": 77}) == (0, 1, 0)
    assert (column(items, "name")[8], column(items, "amount")[8]) == ("n9", 77)


def test_delete_takes_sub_queries_and_common_table_expressions(lake: Lake, items: Table) -> None:
    big = "with big as (select id from shop.items where amount > 6)"
    text = f"{big} delete from shop.items where id in (select id from big)"
    assert run(lake, text) == (0, 0, 3)
    assert run(lake, "delete from shop.items where amount > (select avg(amount) from shop.items)") == (0, 0, 3)
    assert sorted(column(items, "id")) == [0, 1, 2, 3]
    assert run(lake, "delete from shop.items") == (0, 0, 4)


def test_merge_has_all_clauses(lake: Lake, items: Table) -> None:
    before = items.version
    text = """
        merge into shop.items t using (select id + 5 as id, 'new' as name, 100 as amount, id as x from shop.items) s
        on t.id = s.id
        when matched and s.x = 0 then delete
        when matched and s.x = 1 then update set *
        when matched then update set name = concat(t.name, s.name)
        when not matched and s.id > 13 then insert (id, name) values (s.id, s.name)
        when not matched by source and t.id = 0 then delete
        when not matched by source then update set amount = -1"""
    with pytest.raises(InvalidInput, match="`size` cannot be resolved"):
        run(lake, text)
    text = text.replace("100 as amount", "100 as amount, named_struct('w', 0, 'h', 0) as size")
    assert run(lake, text) == (1, 8, 2)
    assert items.version == before + 1
    assert column(items, "name") == {1: "n1", 2: "n2", 3: "n3", 4: "n4", 6: "new", 14: "new"} | {
        n: f"n{n}new" for n in (7, 8, 9)
    }
    assert column(items, "amount") == {1: -1, 2: -1, 3: -1, 4: -1, 6: 100, 7: 7, 8: 8, 9: 9, 14: None}


def test_merge_matches_by_any_condition(lake: Lake, items: Table) -> None:
    text = """
        merge into shop.items t using (select * from values (3, 'low'), (6, 'high') as v(cut, label)) s
        on t.amount > s.cut and t.amount <= s.cut + 2
        when matched then update set name = s.label"""
    assert run(lake, text) == (0, 4, 0)
    assert column(items, "name") == {n: f"n{n}" for n in (0, 1, 2, 3, 6, 9)} | {
        4: "low",
        5: "low",
        7: "high",
        8: "high",
    }


def test_two_source_rows_for_one_row_are_refused_and_nothing_changes(lake: Lake, items: Table) -> None:
    before = items.version
    with pytest.raises(InvalidInput, match="More than one source row"):
        run(
            lake,
            "merge into shop.items t using (select * from values (1, 'a'), (1, 'b') as v(id, name)) s on t.id = s.id "
            "when matched then update set name = s.name",
        )
    assert items.version == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("update shop.items set nothing = 1", "`nothing` cannot be resolved"),
        ("update shop.items set amount = 'many' where id = 1", "many"),
        ("update shop.items set id = null where id = 1", "id"),
        ("update shop.items set amount = 1 / (id - id)", "Division by zero"),
        ("delete from shop.items where nothing = 1", "`nothing` cannot be resolved"),
        ("delete from shop.items version as of 2 where id = 1", "Syntax error"),
        ("delete from items where id = 1", "database.table"),
        (
            "merge into shop.items t using shop.items s on t.id = s.id when matched then update set name = id",
            "ambiguous",
        ),
        (
            "merge with schema evolution into shop.items t using shop.items s on t.id = s.id when matched then delete",
            "ALTER TABLE",
        ),
    ],
)
def test_bad_changes_are_one_sentence_and_change_nothing(lake: Lake, items: Table, text: str, message: str) -> None:
    before = items.version
    with pytest.raises(InvalidInput, match=message) as raised:
        lake.sql(text)
    assert "\n" not in raised.value.message
    assert items.version == before


def test_the_key_of_a_row_stays(lake: Lake) -> None:
    table = lake.create_table("shop.k", [("id", "long", False), ("v", "string")], primary_key=["id"])
    table.put({"id": 1, "v": "a"})
    with pytest.raises(InvalidInput, match="part of the key"):
        lake.sql("update shop.k set id = id + 1")
    assert run(lake, "update shop.k set id = id, v = 'b'") == (0, 1, 0), "what was put and not flushed is updated too"
    assert table.get(1) == {"id": 1, "v": "b"}


def test_a_change_reads_only_segments_that_may_hold_its_rows(lake: Lake, items: Table, tmp_path: Path) -> None:
    first = min(lake.catalog.segments(items.id, items.version), key=lambda segment: segment.facts.number)
    (tmp_path / "lake" / first.facts.path).write_bytes(b"damaged")
    assert run(lake, "update shop.items set name = 'x' where id = 8") == (0, 1, 0)
    assert run(lake, "delete from shop.items where id in (9)") == (0, 0, 1)


def test_statements_do_not_change_views(lake: Lake, orders: Table) -> None:
    lake.create_view("shop.all", ["shop.orders"])
    for text in (
        "truncate table shop.all",
        "delete from shop.all",
        "update shop.all set id = 1",
        "insert into shop.all select * from shop.orders",
        "merge into shop.all t using shop.orders s on t.id = s.id when matched then delete",
    ):
        with pytest.raises(InvalidInput, match="is a view"):
            lake.sql(text)
    with pytest.raises(NotFound):
        lake.sql("delete from shop.nothing")


def test_safe_statements_change_nothing(lake: Lake, orders: Table, rows: Rows) -> None:
    orders.append(rows(0, 3))
    for text in ("truncate table shop.orders", "delete from shop.orders", "update shop.orders set id = 1"):
        with pytest.raises(PermissionDenied):
            lake.sql(text, safe=True)
    assert orders.scan().count() == 3


_PLAIN = "id + 5 as id, concat('s', id) as name, cast(id as int) as amount"
_SOURCES = {
    "every type": f"""select {_PLAIN}, timestamp '2024-01-01 00:00:00' as at, date '2024-01-02' as day, 1.25BD as price,
        X'01' as raw, true as yes, 1.5F as f, null as nothing from range(10)""",
    "names that come twice": f"select {_PLAIN}, 1 as x, 2 as x from range(10)",
    "collations": "select id + 5 as id, 'S' collate utf8_lcase as name, cast(id as int) as amount from range(10)",
    "wide values": "select id + 5 as id, repeat('s', 300) as name, cast(id as int) as amount from range(10)",
    "no rows": f"select {_PLAIN} from range(0)",
    "nested values": f"select {_PLAIN}, array(id) as more from range(10)",
}
_MERGES = [
    """when matched and s.amount = 2 then delete
    when matched and t.amount % 2 = 0 then update set name = s.name, amount = t.amount + 1""",
    """when matched then update set amount = s.amount
    when not matched and s.amount > 7 then insert (id, name) values (s.id, s.name)""",
    "when not matched then insert (id, amount) values (s.id, s.amount + 1)",
]


@pytest.mark.sample(3)
@pytest.mark.parametrize("source", _SOURCES)
def test_a_merge_does_the_same_with_a_broadcast_and_with_an_outer_join(
    lake: Lake, items: Table, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    before = items.version
    for clauses in _MERGES:
        text = f"merge into shop.items t using ({_SOURCES[source]}) s on t.id = s.id and s.name ilike 's%' {clauses}"
        found = []
        for few in (0, 8, 1 << 17):
            monkeypatch.setattr("moulin.pipeline.read.few.FEW_ROWS", few)
            found.append((run(lake, text), column(items, "name"), column(items, "amount")))
            items.restore(before)
        assert found[0] == found[1] == found[2]


def test_a_source_is_computed_once_for_all_clauses_of_a_merge(lake: Lake, items: Table) -> None:
    source = "select cast(floor(rand() * 2) as bigint) * 100 + id as id from range(10)"
    lake.sql(f"""merge into shop.items t using ({source}) s on t.id = s.id
        when matched then update set amount = -1 when not matched then insert (id, amount) values (s.id, -2)""")
    amounts = column(items, "amount")
    updated = {n for n in range(10) if amounts[n] == -1}
    assert amounts.keys() - set(range(10)) == {100 + n for n in range(10) if n not in updated}
