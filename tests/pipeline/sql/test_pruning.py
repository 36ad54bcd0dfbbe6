"""`lake.sql` reads only segments in which rows may be that it asks for, and always finds all of these rows.

Referees: the same query with pruning off, and Spark over the rows in memory.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import moulin
from moulin import Lake, Table
from moulin.errors import InvalidInput
from moulin.model.schema.arrow import arrow_schema
from tests.pipeline.conftest import MakeRows
from tests.pipeline.sql import conditions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TABLES = ("events", "keyed", "plain", "both")
SHAPES = [
    "select id from {a} where {c}",
    "select id, name, x, s from {a} where {c}",
    "select count(*) n, min(id) low from {a} where {c}",
    "select k, count(*) n from {a} where {c} group by k having count(*) > 1",
    "select id from {a} where {c} union all select id from {b} where {d}",
    "select x.id from (select * from {a} where {c}) x join (select * from {b} where {d}) y on x.id = y.id",
    "select x.id, y.k from (select * from {a} where {c}) x left join {b} y on x.id = y.id and y.k > 0",
    "select x.id from {a} x join {b} y on x.id = y.id and x.ts = y.ts where x.id < 40 and y.k > -2",
    "select id from {a} where {c} and id in (select id from {b} where {d})",
    "select id from {a} where id not in (select id from {b} where {d} and id is not null)",
    "select id from {a} o where exists (select 1 from {b} i where i.id = o.id and i.k = 1)",
    "select id, (select max(id) from {b} where {d}) m from {a} where {c}",
    "with w as (select * from {a}) select p.id from w p join w q on p.id = q.id + 1 where p.k = 2 and q.k is not null",
    "with w as (select id, rand() r from {a}) select p.id from w p, w q where p.id = q.id and p.id < 20 and q.id > 10",
    "select id from {a} where {c} except select id from {b} where {d}",
    "select id from (select *, row_number() over (partition by k order by id) n from {a} where {c}) where n = 1",
    "select id from {a} where ts < now() and ts > current_date() - interval 100 years and {c}",
    "select id from {a} where {c} and rand() >= 0",
    "select id from {a} where false",
    "select min(id) from {a} where {c} union all select max(k) from {a}",
    "select (select max(id) from {a} where {c}) x, (select count(k) from {a}) y, (select max(k) from {a} where {d}) z",
    "select count(*) from {a} union all select sum(k) from {a} where {c} union all select count(*) from {b}",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A lake with tables that were appended to, upserted into, deleted from and evolved, and views of them."""
    path = tmp_path_factory.mktemp("pruning") / "lake"
    chance = random.Random("tables of test_pruning")
    with moulin.connect(path) as lake:
        lake.create_database("shop")
        events = lake.create_table("shop.events", conditions.COLUMNS, event_time="ts", partition_by=["day(ts)", "k"])
        _append(events, chance, 0, 60)
        events.delete_where("id in (3, 10, 17, 24, 31, 38, 45, 52, 59)")
        events.add_column("extra", "double")
        _append(events, chance, 60, 120)
        keyed = lake.create_table("shop.keyed", conditions.COLUMNS, primary_key=["id"])
        for start in (0, 40, 20, 80):  # a key that comes again replaces its row
            keyed.append(_rows(keyed, chance, start, start + 40))
        keyed.delete_where("id in (5, 25, 100)")
        plain = lake.create_table("shop.plain", conditions.COLUMNS, partition_by=["bucket(4, id)", "truncate(1, name)"])
        _append(plain, chance, 0, 120)
        plain.create_index("name")
        plain.create_index("u", "bloom")
        lake.sql("create view shop.both as select * from shop.keyed union all select * from shop.plain")
    return path


@pytest.fixture(scope="module")
def lakes(folder: Path, spark: SparkSession) -> Iterator[tuple[Lake, Lake]]:
    """The lake with pruning, and without; its rows are in memory as `referee_<table>`."""
    with moulin.connect(folder, sql_pruning_segments=1) as pruned, moulin.connect(folder, sql_pruning="off") as whole:
        for name in TABLES:
            rows = whole.sql(f"select * from shop.{name}").toArrow()
            spark.createDataFrame(rows).createOrReplaceTempView(f"referee_{name}")
        yield pruned, whole


def _rows(table: Table, chance: random.Random, start: int, end: int) -> Any:
    return conditions.arrow(
        [conditions.row(chance, number) for number in range(start, end)], arrow_schema(table.state().schema)
    )


def _append(table: Table, chance: random.Random, start: int, end: int) -> None:
    for first in range(start, end, 20):
        table.append(_rows(table, chance, first, first + 20))


def _collected(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


def _compare(
    lakes: tuple[Lake, Lake], spark: SparkSession, chance: random.Random, shapes: list[str], *, unpruned: bool
) -> None:
    pruned, whole = lakes
    for shape in shapes:
        names = chance.choices(TABLES, k=2)
        asked = {"c": conditions.condition(chance), "d": conditions.condition(chance)}
        text = shape.format(a=f"shop.{names[0]}", b=f"shop.{names[1]}", **asked)
        own = shape.format(a=f"referee_{names[0]}", b=f"referee_{names[1]}", **asked)
        wanted = _collected(spark.sql(own))
        assert _collected(pruned.sql(text)) == wanted, text
        if unpruned:
            assert _collected(whole.sql(text)) == wanted, text


@pytest.mark.usefixtures("small_plans")
def test_pruned_queries_find_the_rows_that_spark_finds(lakes: tuple[Lake, Lake], spark: SparkSession) -> None:
    _compare(lakes, spark, random.Random("few shapes"), SHAPES, unpruned=False)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.usefixtures("small_plans")
def test_many_pruned_queries_find_the_rows_that_spark_finds(
    lakes: tuple[Lake, Lake], spark: SparkSession, seed: int
) -> None:
    chance = random.Random(f"many shapes {seed}")
    _compare(lakes, spark, chance, chance.choices(SHAPES, k=25), unpruned=True)


@pytest.fixture
def daily(lake: Lake, orders: Table, rows: MakeRows) -> Table:
    """Ten segments of ten rows, a minute apart."""
    for part in range(10):
        orders.append(rows(part * 10, 10, region=f"r{part}"))
    return orders


def _shares(lake: Lake, text: str) -> list[str]:
    plan = lake.sql(f"explain {text}").collect()[0][0]
    mark = "shop.orders: reads "
    return [line.removeprefix(mark) for line in plan.splitlines() if line.startswith(mark)]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("select * from shop.orders", [10]),
        ("select * from shop.orders where ts < '2024-03-01 00:10:00'", [1]),
        ("select * from shop.orders where cast(ts as date) = '2024-03-02'", [0]),
        ("select * from shop.orders where ts > now() - interval 1 hour", [0]),
        ("select * from shop.orders where ts > timestamp'2024-03-01 01:25:00' - interval 10 minutes", [3]),
        ("select * from shop.orders where id in (1, 2, 95)", [2]),
        ("select * from shop.orders where region like 'r3%'", [1]),
        ("select * from shop.orders where region is null", [0]),
        ("with t as (select *, id as n from shop.orders) select * from t where n = 7", [1]),
        ("select * from shop.orders where id = 7 union all select * from shop.orders where id > 75", [1, 3]),
        ("select a.id from shop.orders a join shop.orders b on a.id = b.id where a.id = 7", [1, 1]),
        (
            "select id from shop.orders o where exists (select 1 from shop.orders i where i.id = o.id and i.id = 7)",
            [1, 10],
        ),
        (
            "select id from shop.orders where id = 7 and amount < (select max(amount) from shop.orders where id < 25)",
            [1, 3],
        ),
        ("select * from (select * from shop.orders order by id limit 5) where id = 7", [10]),
        ("select _segment, id from shop.orders where id = 7", [1]),
        ("select * from shop.orders where false", [0]),
        ("select count(*) from shop.orders", [0]),
        ("select count(*), max(id) from shop.orders", [0]),
        ("select count(*), max(region) from shop.orders", [10]),
    ],
)
def test_only_segments_with_rows_that_are_asked_for_are_read(
    lake: Lake, daily: Table, text: str, read: list[int]
) -> None:
    assert sorted(_shares(lake, text)) == sorted(f"{number} of 10 segments" for number in read)


def test_rows_are_counted_without_reading_them(lake: Lake, daily: Table, spark: SparkSession) -> None:
    before = daily.version
    daily.delete_where("id between 15 and 34")
    lake.sql("create view shop.v as select * from shop.orders union all select * from shop.orders where id < 10")
    for text, wanted in [
        ("select count(*) from shop.orders", [80]),
        ("select count(1) + count(*) from (select id from shop.orders)", [160]),
        (f"select count(*) from shop.orders version as of {before}", [100]),
        ("select count(*) from shop.v", [90]),
        ("select count(*) from shop.orders a cross join (select * from shop.orders limit 3)", [240]),
        ("select count(*) from (select distinct input_file_name() from shop.orders)", [9]),
        ("select count(*) from shop.orders where region is not null", [80]),
        ("select 1 from shop.orders limit 2", [1, 1]),
    ]:
        assert [row[0] for row in lake.sql(text).collect()] == wanted, text


def test_a_frame_reads_the_files_of_the_segments_that_are_left(lake: Lake, daily: Table) -> None:
    assert len(lake.sql("select * from shop.orders where id = 7").inputFiles()) == 1
    assert len(lake.sql("select * from shop.orders").inputFiles()) == 10


def test_pruning_can_be_switched_off(lake: Lake, daily: Table, tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake", sql_pruning="off") as other:
        assert len(other.sql("select * from shop.orders where id = 7").inputFiles()) == 10


def test_tables_of_few_segments_are_read_as_they_are(lake: Lake, daily: Table, tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake", sql_pruning_segments=11) as other:
        assert len(other.sql("select * from shop.orders where id = 7").inputFiles()) == 10
        daily.append([{"id": 100}])
        assert len(other.sql("select * from shop.orders where id = 7").inputFiles()) == 1


def test_a_query_has_one_time(lake: Lake, daily: Table) -> None:
    """Rows that come between two plans of a query are after the `now()` of both, or before it in both."""
    frame = lake.sql("select now() as first, id from shop.orders where ts < now()")
    assert frame.collect()[0].first == frame.where("id >= 0").collect()[0].first


def test_a_query_that_asks_spark_for_files_still_gets_them(lake: Lake, daily: Table) -> None:
    assert lake.sql("select distinct _metadata.file_path from shop.orders where id in (1, 95)").count() == 2


def test_what_spark_refuses_is_said_as_without_pruning(lake: Lake, daily: Table) -> None:
    with pytest.raises(InvalidInput, match="cannot be resolved"):
        lake.sql("select * from shop.orders where nothing = 1")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many segments statements read of the table that they change, in the order of their reads."""
    from moulin.pipeline.read.reader import TableReader
    from moulin.pipeline.statements import in_process

    found: list[int] = []
    located, cut = TableReader.located, in_process.cut

    def counted(self: TableReader, *given: Any) -> Any:
        frame = located(self, *given)
        found.append(frame.segments)
        return frame

    def counted_here(segments: Any) -> Any:
        found.append(len(segments))
        return cut(segments)

    monkeypatch.setattr(TableReader, "located", counted)
    monkeypatch.setattr(in_process, "cut", counted_here)
    return found


def test_a_change_reads_the_segments_of_the_rows_that_it_asks_for(lake: Lake, daily: Table, read: list[int]) -> None:
    lake.sql("update shop.orders set region = 'new' where ts < '2024-03-01 00:05:00'")
    lake.sql("update shop.orders set region = lower('NEW') || region where id = 85")
    lake.sql("delete from shop.orders where id between 25 and 33 and amount > 0")
    lake.sql("delete from shop.orders where id between 25 and 33 and amount + 1 > 0")
    on = "t.id = s.id and t.id between 90 - 50 and 49"
    lake.sql(f"merge into shop.orders t using (select 44L as id) s on {on} when matched then delete")
    assert read == [1, 1, 2, 2, 1]
    assert lake.sql("select count(*) from shop.orders").collect()[0][0] == 90
    assert lake.sql("select count(*) from shop.orders where region like 'new%'").collect()[0][0] == 6


@pytest.mark.parametrize(
    ("source", "on", "segments"),
    [
        ("select explode(array(12L, 47L, 2000L)) as id", "t.id = s.id", 2),
        ("select explode(array(12, 47)) as id", "s.id = t.id", 2),
        ("select 5L as id, 'r0' as region union all select 6L, 'r9'", "t.id = s.id and t.region = s.region", 1),
        ("select id + 71 as id from range(20001)", "t.id = s.id", 3),
        ("select cast(null as bigint) as id", "t.id = s.id", 0),
        ("select timestamp'2024-03-01 00:41:00Z' as ts", "t.ts = s.ts", 1),
        ("select 12L as id", "t.id <= s.id", 10),
        ("select 12L as id", "t.id = s.id or t.region = 'r3'", 10),
        ("select 12.0D as id", "t.id = s.id", 10),
    ],
)
def test_a_merge_reads_the_segments_that_its_small_source_may_match(
    lake: Lake, daily: Table, read: list[int], source: str, on: str, segments: int
) -> None:
    before = daily.version
    text = f"merge into shop.orders t using ({source}) s on {on} when matched then update set region = 'merged'"
    lake.sql(text)
    assert read == [segments]
    merged = [row["id"] for row in daily.scan(where="region = 'merged'").to_arrow().to_pylist()]
    daily.restore(before)
    wanted = lake.sql(f"select t.id from shop.orders t where exists (select 1 from ({source}) s where {on})").collect()
    assert sorted(merged) == sorted(row.id for row in wanted)


def test_a_merge_by_source_reads_every_segment(lake: Lake, daily: Table, read: list[int]) -> None:
    lake.sql(
        "merge into shop.orders t using (select 44L as id) s on t.id = s.id when not matched by source then delete"
    )
    assert read == [10]
    assert [row["id"] for row in daily.scan().to_arrow().to_pylist()] == [44]
