"""A DataFrame upserted into a keyed table, half of its keys there already, and deltalake's merge of the same rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Bench, Contender, Line, Skipped
from benchmarks.puts import _batch as make_batch

TITLE = "upsert of a DataFrame / deltalake's merge"
TARGET = 0.6
_ROWS = 100_000


def run(bench: Bench) -> Iterator[Line]:
    spark = bench.spark()
    rows = pa.Table.from_batches([make_batch(0, bench.rows)])
    upserted = _upserted(bench.rows, min(_ROWS, bench.rows // 10))
    lake = bench.lake()
    table = lake.create_table("bench.upserted", rows.schema, primary_key=["id"])
    bench.step(f"loading {bench.rows:,} rows by key")
    table.append(rows)
    table.compact(everything=True)
    loaded = table.version
    frame = spark.createDataFrame(upserted).repartition(spark.sparkContext.defaultParallelism).cache()
    frame.count()
    try:
        peer = _deltalake(bench, rows, upserted)
    except ImportError as error:
        raise Skipped(f"no deltalake: {error}") from error
    yield bench.compare(
        "spark_upsert",
        f"{upserted.num_rows:,} rows, half existing, into {bench.rows:,}",
        Contender(lambda: table.append(frame), lambda: table.restore(loaded)),
        {"deltalake merge": peer},
        target=TARGET,
    )
    frame.unpersist()


def _upserted(rows: int, count: int) -> pa.Table:
    """Rows of random keys, half of them new, in no order."""
    random = np.random.default_rng(1)
    half = count // 2
    keys = np.concatenate([random.choice(rows, half, replace=False), rows + random.choice(rows, half, replace=False)])
    random.shuffle(keys)
    made = make_batch(0, len(keys))
    return pa.Table.from_batches([made]).set_column(0, made.schema.field(0), pa.array(keys))


def _deltalake(bench: Bench, rows: pa.Table, upserted: pa.Table) -> Contender:
    from deltalake import DeltaTable, write_deltalake

    base, copy = bench.folder / "delta", bench.folder / "delta_copy"
    write_deltalake(str(base), rows)

    def prepare() -> None:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(base, copy)

    def merge() -> Any:
        return _merge(DeltaTable(str(copy)), upserted)

    return Contender(merge, prepare)


def _merge(table: Any, upserted: pa.Table) -> Any:
    merger = table.merge(upserted, "t.id = s.id", source_alias="s", target_alias="t")
    return merger.when_matched_update_all().when_not_matched_insert_all().execute()
