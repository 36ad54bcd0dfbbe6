"""Spark aggregates over a table of the lake, and over the same rows as plain Parquet that Spark wrote."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import events, lakes
from benchmarks.harness import Bench, Line
from moulin.table.table import Table

TITLE = "Spark aggregate / plain Parquet"
WHOLE, DELETED = 1.10, 1.30
_WARM_SECONDS = 12.0

QUERIES = {
    "group by": "select region, count(*) as n, sum(amount) as total from {} group by region",
    "all columns": "select region, count(*) as n, max(id) as id, max(ts) as ts, approx_count_distinct(user) as users, "
    "sum(amount) as total, max(note) as note from {} group by region",
}


def run(bench: Bench) -> Iterator[Line]:
    bench.spark()
    for kind, make in (("appended", lakes.fresh_table), ("compacted", lakes.merged_table)):
        table = make(bench)
        whole = table.version
        yield from _compare(bench, table, f"{kind}, no deletes", WHOLE)
        bench.step(f"{kind}: deleting {events.FIVE_PERCENT}")
        table.delete_where(events.FIVE_PERCENT)
        yield from _compare(bench, table, f"{kind}, 5 % deleted", DELETED)
        table.restore(whole)


def _compare(bench: Bench, table: Table, case: str, target: float) -> Iterator[Line]:
    bench.step(f"{case}: plain copy")
    plain = _plain_copy(bench, table, bench.folder / "plain" / case.replace(" ", "-"))
    spark, lake = bench.spark(), bench.lake()
    schema = spark.read.parquet(str(plain)).schema

    def peer(text: str) -> list[object]:
        return spark.sql(text.format("{plain}"), plain=spark.read.schema(schema).parquet(str(plain))).collect()

    def ours(text: str) -> list[object]:
        return lake.sql(text.format(table.name)).collect()

    for name, text in QUERIES.items():
        _require_equal(ours(text), peer(text))
        _warm(bench, lambda text=text: ours(text), lambda text=text: peer(text))
        yield bench.compare(
            "spark_scan",
            f"{name}, {case}",
            lambda text=text: ours(text),
            {"plain Parquet": lambda text=text: peer(text)},
            target=target,
        )


def _warm(bench: Bench, *queries: Callable[[], object]) -> None:
    """Until Java has compiled what both run: the peer's code is that of the case before, ours is new in each case."""
    bench.step("warming up")
    end = time.monotonic() + _WARM_SECONDS
    while time.monotonic() < end:
        for query in queries:
            query()


def _plain_copy(bench: Bench, table: Table, folder: Path) -> Path:
    """The live rows of the table, in its order, in as many files as it has segments, written by Spark."""
    rows = table.scan().to_arrow()
    files = table.stats().segments
    share = -(-rows.num_rows // files)
    staged = folder.with_name("staged.parquet")
    staged.parent.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        pq.write_table(_unmarked(rows.slice(number * share, share)), staged)
        frame = bench.spark().read.parquet(str(staged)).coalesce(1)
        frame.write.mode("append").option("compression", "zstd").parquet(str(folder))
    staged.unlink()
    return folder


def _unmarked(rows: pa.Table) -> pa.Table:
    """Without field ids, as a stranger would write it."""
    return rows.cast(events.SCHEMA)


def _require_equal(ours: list[object], theirs: list[object]) -> None:
    """The same groups; sums of floats may differ in their last digits, as they depend on the order of the rows."""
    for mine, other in zip(_by_region(ours), _by_region(theirs), strict=True):
        for left, right in zip(mine, other, strict=True):
            if not (math.isclose(left, right, rel_tol=1e-9) if isinstance(left, float) else left == right):
                raise AssertionError(f"The table and the plain files give different answers: {left} and {right}.")


def _by_region(rows: list[object]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=lambda row: str(row[0]))  # type: ignore[arg-type]
