"""Values of every type in statements that change rows: what a statement does not give stays as it is, to the bit."""

from __future__ import annotations

import math
import struct
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from moulin import Lake, Table
from moulin.errors import InvalidInput
from tests.table.every_type import VALUES, columns, row, shown

pytestmark = pytest.mark.spark

_NANOS = 1_700_000_000_123_456_789


@pytest.mark.parametrize("key", [(), ("id",)])
def test_an_update_of_one_column_keeps_the_others_of_every_type(lake: Lake, key: tuple[str, ...]) -> None:
    kinds = list(VALUES)
    schema: list[Any] = [("id", "long", False), ("n", "int")]
    for index, kind in enumerate(kinds):
        schema += [(f"{column[0]}_{index}", column[1]) for column in columns(kind)[1:]]
    table = lake.create_table("shop.all", schema, primary_key=list(key))
    rows = []
    for number, choice in enumerate((0, 1, None)):
        one: dict[str, Any] = {"id": number, "n": 0}
        for index, kind in enumerate(kinds):
            made = row(kind, number, choice)
            one |= {f"{name}_{index}": value for name, value in made.items() if name != "id"}
        rows.append(one)
    table.append(rows)
    before = table.scan().to_arrow()
    lake.sql("update shop.all set n = id + 1")
    lake.sql("merge into shop.all t using (select 2L as id) s on t.id = s.id when matched then update set n = 9")
    after = table.scan().to_arrow()
    assert after.drop_columns(["n"]).sort_by("id").equals(before.drop_columns(["n"]).sort_by("id"))
    assert dict(zip(*after.select(["id", "n"]).to_pydict().values(), strict=True)) == {0: 1, 1: 2, 2: 9}


def test_nanoseconds_outlive_updates_deletes_and_merges_beside_them(lake: Lake) -> None:
    table = lake.create_table(
        "shop.t", [("id", "long"), ("at", "timestamp_ns"), ("tz", "timestamptz_ns"), ("n", "int")]
    )
    ids, times = pa.array([1, 2, 3]), pa.array([_NANOS + n for n in range(3)])
    data = [ids, times.cast(pa.timestamp("ns")), times.cast(pa.timestamp("ns", "UTC")), pa.nulls(3, pa.int32())]
    table.append(pa.table(data, names=["id", "at", "tz", "n"]))
    lake.sql("update shop.t set n = 1")
    lake.sql("delete from shop.t where at = timestamp_ntz '2023-11-14 22:13:20.123456' and id = 1")
    lake.sql(
        "merge into shop.t using shop.t s on t.id = s.id and s.id = 2 when matched then update set n = 2 "
        "when not matched by source then update set tz = null"
    )
    found = table.scan().to_arrow().sort_by("id")
    assert found["id"].to_pylist() == [2, 3]
    assert found["at"].cast(pa.int64()).to_pylist() == [_NANOS + 1, _NANOS + 2]
    assert found["tz"].cast(pa.int64()).to_pylist() == [_NANOS + 1, None]


def _bits(value: float) -> str:
    return "nan" if math.isnan(value) else struct.pack(">d", value).hex()


def test_nan_and_negative_zero_are_kept_and_compared_as_spark_does(lake: Lake) -> None:
    table = lake.create_table("shop.t", [("id", "long"), ("x", "double"), ("n", "int")])
    values = [math.nan, -0.0, 0.0, math.inf, 1.5]
    table.append([{"id": number, "x": value, "n": 0} for number, value in enumerate(values)])
    lake.sql("update shop.t set n = 1 where x = double('NaN') or x = 0.0")
    found = {one["id"]: (one["n"], _bits(one["x"])) for one in table.scan().to_pylist()}
    assert found == {n: (int(n < 3), _bits(value)) for n, value in enumerate(values)}
    lake.sql("update shop.t set x = case when id = 4 then -double('0.0') else double('NaN') end where id in (3, 4)")
    lake.sql("delete from shop.t where x > 1e300")  # NaN is above all numbers
    assert {one["id"]: _bits(one["x"]) for one in table.scan().to_pylist()} == {
        1: _bits(-0.0),
        2: _bits(0.0),
        4: _bits(-0.0),
    }


def test_statements_give_values_of_every_type(lake: Lake) -> None:
    schema = [
        ("id", "long"),
        ("u", "uuid"),
        ("d", "decimal(9, 2)"),
        ("f", "fixed[4]"),
        ("b", "binary"),
        ("day", "date"),
        ("at", "timestamp"),
        ("t", "time"),
        ("s", "struct<a: int, b: struct<c: string>>"),
        ("l", "list<int>"),
        ("m", "map<string, long>"),
    ]
    table = lake.create_table("shop.t", schema)
    number = UUID(int=77)
    lake.sql(
        f"insert into shop.t values (1, '{number}', 1.25, X'01020304', X'FF', date '2024-02-29', "
        "timestamp_ntz '2024-02-29 01:02:03.000004', time '01:02:03', "
        "named_struct('a', 1, 'b', named_struct('c', 'x')), array(1, null), map('k', 5L))"
    )
    lake.sql("insert into shop.t select id + 1, u, d, f, b, day, at, t, s, l, m from shop.t")
    lake.sql("update shop.t set s.b.c = 'y', s.a = s.a + 1, l = l || array(9), m = map('k', m['k'] + 1) where id = 2")
    lake.sql("update shop.t set d = d * 2, f = X'00000000', day = day + 1 where id = 2")
    lake.sql(
        "merge into shop.t using (select * from shop.t where id = 1) as o on t.u = o.u and t.id = 2 when matched then "
        "update set b = o.f, at = o.at + interval 1 day, u = upper(o.u)"
    )
    first, second = sorted(table.scan().to_pylist(), key=lambda one: one["id"])
    expected = {
        "id": 1,
        "u": number,
        "d": Decimal("1.25"),
        "f": b"\x01\x02\x03\x04",
        "b": b"\xff",
        "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 1, 2, 3, 4),
        "t": time(1, 2, 3),
        "s": {"a": 1, "b": {"c": "x"}},
        "l": [1, None],
        "m": {"k": 5},
    }

    def plain(one: dict[str, Any]) -> dict[str, Any]:
        return {name: dict(value) if name == "m" else shown(value) for name, value in one.items()}

    assert plain(first) == plain(expected)
    changed = {
        "id": 2,
        "d": Decimal("2.50"),
        "f": b"\0\0\0\0",
        "b": b"\x01\x02\x03\x04",
        "day": date(2024, 3, 1),
        "at": datetime(2024, 3, 1, 1, 2, 3, 4),
        "s": {"a": 2, "b": {"c": "y"}},
        "l": [1, None, 9],
        "m": {"k": 6},
    }
    assert plain(second) == plain({**expected, **changed})


@pytest.mark.parametrize(
    ("text", "column"),
    [
        (
            "update shop.t set u = 'no uuid'",
            r"^Column u of shop\.t: .*'no uuid'.* the row with _segment = \d+ and _position = 0\.",
        ),
        ("update shop.t set f = X'0102'", r"^Column f of shop\.t: .* _position = 0\."),
        ("update shop.t set d = 123456.5", "d"),
        ("update shop.t set n = id + 3000000000", "value 3000000001L"),
        (
            "insert into shop.t (id, u) values (2, 'no uuid')",
            r"^Column u of shop\.t: .*'no uuid'.* the row with id = 2",
        ),
        ("insert into shop.t (id, f) values (2, X'01')", "f"),
        ("insert into shop.t (id, n) values (2, 3000000000)", "value 3000000000L"),
        ("update shop.t set s.missing = 1", "missing"),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_refused(lake: Lake, text: str, column: str) -> None:
    schema = [("id", "long"), ("u", "uuid"), ("f", "fixed[4]"), ("d", "decimal(5, 1)"), ("n", "int")]
    table = lake.create_table("shop.t", [*schema, ("s", "struct<a: int>")])
    table.append([{"id": 1, "n": 1}])
    before = table.version
    with pytest.raises(InvalidInput, match=column):
        lake.sql(text)
    assert table.version == before
    assert table.scan().count() == 1


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "text",
    [
        "insert into shop.t (n) values (1)",
        "insert into shop.t values (null, 1, named_struct('a', 1))",
        "insert into shop.t select n, n, s from shop.t",
        "insert into shop.t values (5, 1, named_struct('a', null))",
        "update shop.t set id = null where n is null",
        "update shop.t set id = n",
        "update shop.t set s = named_struct('a', n)",
        "merge into shop.t using (select 1 as x) s on t.n = s.x when not matched then insert (n) values (1)",
        "merge into shop.t using (select 1 as x) s on true when matched and t.n is null then update set id = null",
    ],
)
def test_a_required_value_is_never_null(lake: Lake, text: str) -> None:
    table = lake.create_table("shop.t", [("id", "long", False), ("n", "int"), ("s", _REQUIRED, False)])
    table.append([{"id": 1, "n": None, "s": {"a": 1}}])
    before = table.version
    with pytest.raises(InvalidInput, match=r"id|\ba\b|s"):
        lake.sql(text)
    assert table.version == before


_REQUIRED = pa.struct([pa.field("a", pa.int32(), nullable=False)])


@pytest.fixture
def evolved(lake: Lake) -> Table:
    """A table with files of four schemas: columns were renamed, widened, dropped and added since."""
    table = lake.create_table("shop.t", [("id", "int"), ("name", "string"), ("old", "int")])
    table.append([{"id": 1, "name": "one", "old": 1}, {"id": 2, "name": "two", "old": 2}])
    table.add_column("more", "int", default=7)
    table.append([{"id": 3, "name": "three", "old": 3, "more": 30}])
    table.rename_column("name", "title")
    table.drop_column("old")
    table.widen_column("id", "long")
    table.append([{"id": 2**40, "title": "big", "more": None}])
    table.add_column("name", "long")  # the name that another column had
    table.append([{"id": 5, "title": "five", "more": 5, "name": 55}])
    return table


def test_statements_change_rows_of_older_schemas(lake: Lake, evolved: Table) -> None:
    lake.sql("update shop.t set title = upper(title) where more = 7")
    lake.sql("update shop.t set name = id where name is null and id < 3")
    lake.sql(
        "merge into shop.t using (values (3L, 'x'), (6L, 'six')) as s on t.id = s.col1 when matched then update set "
        "more = t.more + 1 when not matched then insert (id, title) values (col1, col2)"
    )
    lake.sql("delete from shop.t where id > 2000000000")
    found = sorted(tuple(one.values()) for one in evolved.scan(["id", "title", "more", "name"]).to_pylist())
    assert found == [
        (1, "ONE", 7, 1),
        (2, "TWO", 7, 2),
        (3, "three", 31, None),
        (5, "five", 5, 55),
        (6, "six", 7, None),
    ]
    feed = evolved.changes(evolved.version - 1).to_pylist()
    assert [(change["_change_type"], change["id"], change["title"]) for change in feed] == [("delete", 2**40, "big")]
