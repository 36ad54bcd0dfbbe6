"""Counts, least and greatest values come from the catalog where it knows them exactly.

Referee: the same query with pruning off, for which Spark reads the rows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import moulin
from moulin import Lake, Table
from moulin.ingest.setup import set_up
from moulin.pipeline.nursery.nursery import Nursery
from tests.pipeline.conftest import MakeRows
from tests.pipeline.nursery.test_nursery import Writer, logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime(2024, 3, 1, tzinfo=UTC)
COLUMNS = [
    ("id", "long", False),
    ("ts", "timestamptz"),
    ("zn", "timestamptz_ns"),
    ("d", "date"),
    ("region", "string"),
    ("k", "int"),
    ("name", "string"),
    ("x", "double"),
    ("flag", "boolean"),
    ("price", "decimal(9, 2)"),
    ("u", "uuid"),
    ("s", "struct<a: long>"),
]
REGIONS = [
    "eu",
    "us",
    "a region with a name that no bound keeps whole",
    "a region with a name of the same beginning",
    None,
]
NAMES = ["", "a", "z" * 20, "z" * 16 + "a", "a\U0010ffff" + "\U0010ffff" * 20, "é"]
FLOATS = [1.5, -2.0, 1e9, 0.0, -0.0, math.inf]
AGGREGATES = [
    "count(*)",
    "count(1) + count(*)",
    *(f"{end}({column})" for end in ("min", "max") for column in ("id", "ts", "zn", "d", "k", "x", "flag", "price")),
    "max(name)",
    "min(region)",
    "cast(max(ts) as date)",
    "max(k) - min(k)",
    "count(k)",
    "count(distinct region)",
    "sum(k)",
    "min(s.a)",
    "max(u)",
    "max(extra)",
    "min(given)",
]
WHERES = [
    "true",
    "region = 'eu'",
    "region in ('us', 'a region with a name that no bound keeps whole')",
    "region is null",
    "region like 'a region%'",
    "region <> 'eu' or d > date'2024-03-02'",
    "d between date'2024-03-01' and date'2024-03-02'",
    "d = date'2024-03-02' and upper(region) = 'US'",
    "id > 40",
    "region = 'nowhere'",
    "rand() >= 0",
    "k = (select max(k) from {t})",
]
GROUPS = ["", "region", "d", "region, d", "region, d, k", "k", "upper(region)", "flag", "given"]
SHAPES = [
    "select {some} from {t} where {where}",
    "select {some} from (select * from {t}) as q where {where}",
    "with w as (select * from {t} where {where}) select {some} from w",
    "select {some} from {t} where {where} union all select {some} from {t}",
    "select q.n, r.n from (select count(*) n from {t} where {where}) q, (select count(*) n from {t}) r",
    "select (select max(id) from {t} where {where}) m, count(*) from {t}",
]
GROUPED = [
    "select {some} from {t} where {where} group by {g}",
    "select {some} from (select * from {t} where {where}) as q group by {g}",
    "with w as (select *, 1 as one from {t}) select {some} from w where {where} group by {g}",
    "select {some} from {t} where {where} group by {g} having count(*) > 3",
    "select count(*) from (select {some} from {t} where {where} group by {g})",
    "select distinct {g} from {t} where {where}",
]


def _row(chance: random.Random, number: int, *, nan: bool) -> dict[str, Any]:
    ts = START + timedelta(hours=number)
    values: dict[str, Any] = {
        "ts": ts,
        "zn": int(ts.timestamp()) * 10**9 + chance.choice([-1, 0, 1, 999]),
        "d": ts.date(),
        "region": REGIONS[number % 5],
        "k": number // 15,
        "name": chance.choice(NAMES),
        "x": chance.choice([*FLOATS, math.nan] if nan else FLOATS),
        "flag": chance.random() < 0.5,
        "price": Decimal(chance.randrange(-300, 300)) / 100,
        "u": number.to_bytes(16, "big"),
        "s": {"a": number},
    }
    kept = ("d", "region")
    return {"id": number, **{n: v if n in kept or chance.random() < 0.9 else None for n, v in values.items()}}


def _rows(table: Table, chance: random.Random, numbers: range, *, nan: bool = False) -> pa.Table:
    from moulin.model.schema.arrow import arrow_schema

    schema = arrow_schema(table.state().schema)
    rows = [_row(chance, number, nan=nan) for number in numbers]
    arrays = []
    for field in schema:
        stored = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
        made = pa.array([row.get(field.name) for row in rows], stored)
        arrays.append(made if stored is field.type else pa.ExtensionArray.from_storage(field.type, made))
    return pa.table(arrays, schema=schema)


def _fill(table: Table, chance: random.Random) -> None:
    """Rows with and without NaN, of several schemas, some of them deleted, some segments of nulls alone."""
    table.append(_rows(table, chance, range(40)))
    table.add_column("extra", "double")
    table.add_column("given", "long", default=7)
    table.append(_rows(table, chance, range(40, 80), nan=True))
    table.widen_column("k", "long")
    table.append([{"id": number, "region": "eu", "d": START.date()} for number in range(80, 84)])
    table.append(_rows(table, chance, range(84, 120)))
    table.delete_where("id in (0, 7, 33, 119) or (region = 'us' and d = '2024-03-02')")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    path = tmp_path_factory.mktemp("aggregates") / "lake"
    chance = random.Random("tables of test_aggregates")
    with moulin.connect(path) as lake:
        lake.create_database("shop")
        _fill(lake.create_table("shop.parts", COLUMNS, event_time="ts", partition_by=["region", "d"]), chance)
        _fill(lake.create_table("shop.plain", COLUMNS), chance)
        keyed = lake.create_table("shop.keyed", COLUMNS, primary_key=["id"])
        _fill(keyed, chance)
        keyed.append(_rows(keyed, chance, range(30, 50)))  # a key that comes again replaces its row
        moved = lake.create_table("shop.moved", COLUMNS, partition_by=["region"])
        _fill(moved, chance)
        moved.set_partitioning(["d", "bucket(3, id)"])
        moved.append(_rows(moved, chance, range(120, 140)))
        lake.create_table("shop.empty", COLUMNS)
    return path


@pytest.fixture(scope="module")
def lakes(folder: Path) -> Iterator[tuple[Lake, Lake]]:
    with moulin.connect(folder, sql_pruning_segments=1) as answered, moulin.connect(folder, sql_pruning="off") as read:
        yield answered, read


def _query(chance: random.Random, table: str) -> str:
    group = chance.choice(GROUPS)
    some = ", ".join([*([group] if group else []), *chance.choices(AGGREGATES, k=chance.choice([1, 1, 2, 3]))])
    if table == "shop.empty":
        some = some.replace("extra", "x").replace("given", "k")
        group = group.replace("given", "k")
    shape, where = chance.choice(GROUPED if group else SHAPES), chance.choice(WHERES)
    return shape.replace("{g}", group).replace("{some}", some).replace("{where}", where).replace("{t}", table)


def _check(lakes: tuple[Lake, Lake], chance: random.Random, queries: int) -> int:
    """How many of random queries the catalog answered alone."""
    answered, read = lakes
    alone = 0
    for _ in range(queries):
        text = _query(chance, chance.choice(["shop.parts", "shop.plain", "shop.keyed", "shop.moved", "shop.empty"]))
        found = answered.sql(text)
        assert sorted(map(repr, found.collect())) == sorted(map(repr, read.sql(text).collect())), text
        alone += not found.inputFiles()
    return alone


@pytest.mark.usefixtures("small_plans")
def test_totals_are_those_of_the_rows(lakes: tuple[Lake, Lake]) -> None:
    assert _check(lakes, random.Random("few aggregates"), 12) > 1


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.usefixtures("small_plans")
def test_many_totals_are_those_of_the_rows(lakes: tuple[Lake, Lake], seed: int) -> None:
    assert _check(lakes, random.Random(f"many aggregates {seed}"), 120)


def _read(lake: Lake, text: str) -> int:
    """How many segments a query reads."""
    plan = lake.sql(f"explain {text}").collect()[0][0]
    mark = "shop.orders: reads "
    return sum(int(line.removeprefix(mark).split()[0]) for line in plan.splitlines() if line.startswith(mark))


@pytest.fixture
def orders_by_region(lake: Lake, rows: MakeRows) -> Table:
    columns = [("id", "long", False), ("ts", "timestamptz"), ("region", "string"), ("amount", "double")]
    table = lake.create_table("shop.orders", columns, event_time="ts", partition_by=["region"])
    for part in range(10):
        table.append(rows(part * 10 + 1, 10, region=f"r{part % 3}"))
    return table


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("select min(id), max(id), count(*), max(ts), min(amount) from shop.orders", 0),
        ("select region, count(*) n from shop.orders group by region order by n", 0),
        ("select region, max(id) - min(id) from shop.orders where region > 'r0' group by region", 0),
        ("select distinct region from shop.orders", 0),
        ("select count(*) from shop.orders where region = 'r1'", 0),
        ("select region, count(*) n from shop.orders group by region having n > 30", 0),
        ("select count(*) from (select region from shop.orders group by region)", 0),
        ("select max(region) from shop.orders", 10),
        ("select count(*) from shop.orders where id < 15", 2),
        ("select region, sum(id) from shop.orders where region = 'r1' group by region", 3),
        ("select count(distinct id) from shop.orders", 10),
        ("select count(*) filter (where id > 5) from shop.orders", 10),
    ],
)
def test_totals_come_from_the_catalog(lake: Lake, orders_by_region: Table, text: str, read: int) -> None:
    assert _read(lake, text) == read


def test_a_bound_counts_while_no_row_of_its_segment_is_deleted(lake: Lake, orders_by_region: Table) -> None:
    orders_by_region.delete_where("id in (15, 100)")
    assert _read(lake, "select min(id) from shop.orders") == 0
    assert _read(lake, "select max(id) from shop.orders") == 10
    assert _read(lake, "select region, count(*) from shop.orders group by region") == 0
    found = lake.sql("select min(id), max(id), count(*) from shop.orders").collect()
    assert [tuple(row) for row in found] == [(1, 99, 98)]


def test_rows_that_are_in_no_version_yet_count(tmp_path: Path, spark: SparkSession) -> None:
    with moulin.connect(tmp_path / "lake", sql_pruning_segments=1) as lake:
        token = set_up(lake).token
        assert token is not None
        writer = Writer(lake, token)
        for body in "abc":
            writer.send(logs(body))
            if body != "c":
                Nursery(lake, spark=False).run_once()
        found = lake.sql("select count(*) n, max(event_time) as newest from otel.logs").collect()
        assert [tuple(row) for row in found] == [
            (3, lake.sql("select max(event_time + interval 0 seconds) from otel.logs").collect()[0][0])
        ]
        assert lake.sql("select count(*) from otel.logs", fresh=False).collect()[0][0] == 2
