"""`lake.sql` of one hour of a table of many segments, beside one of few, and beside plain Spark on the matching files.

Every hour is a segment. "first" is the first time that a text is run, with other hours than before: nothing that was
planned is used again. "warm" is the same text again and again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from benchmarks.harness import Bench, Contender, Line, Sample, take_turns
from moulin import Lake
from moulin.table.table import Table

TITLE = "lake.sql of one hour"
NAME = "sql_pruning"
MANY, FEW = 20_000, 100
AGAINST_FEW, OVER_SPARK = 1.2, 0.150
_ROWS = 50
_HOUR = 3_600_000_000
_START = 1_700_000_000_000_000 // _HOUR * _HOUR
_WARM_SECONDS = 20.0

QUERY = (
    "select region, count(*) as n, sum(amount) as total from {} "
    "where ts >= timestamp_micros({}) and ts < timestamp_micros({}) group by region"
)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("region", pa.string()),
        ("amount", pa.float64()),
        ("note", pa.string()),
    ]
)


def run(bench: Bench) -> Iterator[Line]:
    spark, lake = bench.spark(), bench.lake()
    many = _table(bench, lake, "bench.many", min(MANY, bench.segments))
    few = _table(bench, lake, "bench.few", min(FEW, bench.segments))
    hours = iter(range(1, FEW - 1))

    def ours(table: Table, hour: int) -> Callable[[], object]:
        return lambda: lake.sql(_text(table.name, hour)).collect()

    def peer(hour: int) -> Callable[[], object]:
        files = lake.sql(_text(many.name, hour)).inputFiles()
        columns = lake.sql(f"select * from {many.name} where false").schema
        return lambda: spark.sql(_text("{files}", hour), files=spark.read.schema(columns).parquet(*files)).collect()

    bench.step("warming up")
    end = time.monotonic() + _WARM_SECONDS
    while time.monotonic() < end:
        for query in (ours(many, 0), ours(few, 0), peer(0)):
            query()

    def first(table: Table) -> Callable[[], object]:
        def another_hour() -> object:
            return ours(table, next(hours))()

        return another_hour

    turns = {"": Contender(first(many)), "few": Contender(first(few))}
    samples = take_turns(turns, bench.runs)
    yield _beside_few("first", samples)
    turns = {"": Contender(ours(many, 0)), "few": Contender(ours(few, 0)), "Spark": Contender(peer(0))}
    samples = take_turns(turns, bench.runs, warm_up=3)
    yield _beside_few("warm", samples)
    yield Line(NAME, "one hour, warm / plain Spark on its files", samples[""], samples["Spark"], "Spark")
    more = tuple(a - b for a, b in zip(samples[""].seconds, samples["Spark"].seconds, strict=True))
    yield Line(NAME, "one hour, warm, less plain Spark on its files", Sample(more), target=OVER_SPARK)


def _beside_few(case: str, samples: dict[str, Sample]) -> Line:
    name = f"one hour of {MANY:,} segments, {case}"
    return Line(NAME, name, samples[""], samples["few"], f"of {FEW} segments", AGAINST_FEW)


def _text(table: str, hour: int) -> str:
    return QUERY.format(table, _START + hour * _HOUR, _START + (hour + 1) * _HOUR)


def _table(bench: Bench, lake: Lake, name: str, hours: int) -> Table:
    bench.step(f"{name}: {hours:,} segments")
    table = lake.create_table(name, SCHEMA, event_time="ts", partition_by=["hour(ts)"])
    numbers = np.arange(hours * _ROWS)
    times = _START + numbers // _ROWS * _HOUR + numbers % _ROWS * 60_000_000
    columns = {
        "id": numbers,
        "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
        "region": pa.array(np.array(["africa", "asia", "europe"])[numbers % 3]),
        "amount": numbers * 0.25,
        "note": pa.array([f"note {number % 97}" for number in numbers.tolist()]),
    }
    table.append(pa.table(columns, schema=SCHEMA))
    return table
