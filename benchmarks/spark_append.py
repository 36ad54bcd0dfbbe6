"""Append of a DataFrame to a table, and the same DataFrame written as plain Parquet."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from benchmarks import lakes
from benchmarks.harness import Bench, Contender, Line

TITLE = "append of a DataFrame / df.write.parquet"
TARGET = 1.3


def run(bench: Bench) -> Iterator[Line]:
    spark = bench.spark()
    table = lakes.events_table(bench, "bench.appended")
    source = spark.read.parquet(str(bench.events()))
    frame = source.repartition(spark.sparkContext.defaultParallelism).cache()
    frame.count()
    empty = table.version
    folder = bench.folder / "written"
    for case, rows in (("cached rows", frame), ("rows read from Parquet", source)):
        yield bench.compare(
            "spark_append",
            case,
            Contender(lambda rows=rows: table.append(rows), lambda: table.restore(empty)),
            {
                "df.write.parquet": Contender(
                    lambda rows=rows: rows.write.option("compression", "zstd").parquet(str(folder)),
                    lambda: shutil.rmtree(folder, ignore_errors=True),
                )
            },
            target=TARGET,
        )
    frame.unpersist()
    shutil.rmtree(folder, ignore_errors=True)
