"""Compaction of eight sorted runs. Ours also hashes, keeps lineage, writes a journal, commits; peers sort and write."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import events, lakes
from benchmarks.harness import Bench, Contender, Line
from moulin.table.table import Table

TITLE = "compaction of 8 sorted runs / Spark SQL, polars"
SPARK, POLARS = 0.35, 1.0
RUNS = 8


def run(bench: Bench) -> Iterator[Line]:
    spark = bench.spark()
    table = lakes.events_table(bench, "bench.runs")
    bench.step(f"loading {RUNS} sorted runs")
    for rows in events.sorted_runs(bench.rows, RUNS):
        table.append(rows)
    uncompacted = table.version
    files = [str(path) for path in segment_files(bench, table)]
    folder = bench.folder / "merged"
    ours = Contender(lambda: _compact(table), lambda: table.restore(uncompacted))

    def spark_sql() -> None:
        partitions = spark.sparkContext.defaultParallelism
        frame = spark.read.parquet(*files).repartitionByRange(partitions, "ts").sortWithinPartitions("ts")
        frame.write.option("compression", "zstd").parquet(str(folder))

    yield bench.compare(
        "merge", "8 sorted runs / Spark SQL", ours, {"Spark SQL": _fresh(spark_sql, folder)}, target=SPARK
    )
    try:
        import polars
    except ImportError:
        yield Line("merge", "8 sorted runs / polars", reason="no polars: pip install polars", target=POLARS)
        return

    def eager() -> None:
        folder.mkdir()
        polars.read_parquet(files, hive_partitioning=False).sort("ts").write_parquet(
            folder / "m.parquet", compression="zstd"
        )

    def lazy() -> None:
        folder.mkdir()
        scan = polars.scan_parquet(files, hive_partitioning=False)
        scan.sort("ts").sink_parquet(folder / "m.parquet", compression="zstd")

    peers = {"polars, eager": _fresh(eager, folder), "polars, lazy": _fresh(lazy, folder)}
    yield bench.compare("merge", "8 sorted runs / polars", ours, peers, target=POLARS)
    table.restore(uncompacted)


def _compact(table: Table) -> None:
    done = table.compact(everything=True)
    if done.segments_in != RUNS:
        raise AssertionError(f"The compaction took {done.segments_in} segments, not {RUNS}.")


def _fresh(run: Callable[[], None], folder: Path) -> Contender:
    """Writes into a folder that is not there before."""
    return Contender(run, lambda: shutil.rmtree(folder, ignore_errors=True))


def segment_files(bench: Bench, table: Table) -> list[Path]:
    """The data files of the table's newest version."""
    lake = bench.lake()
    state = table.state()
    segments = lake.catalog.segments(state.id, state.version, with_columns=False)
    return [path for s in segments if (path := lake.store.local_path(s.facts.path)) is not None]
