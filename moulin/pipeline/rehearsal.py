"""The small Spark job whose class loading is recorded for the class-data cache (see java.py).

It does in little what a lake does in large: sorted Parquet files written and read back by field id, an Arrow table
broadcast against them, SQL with grouping, and planned tasks in Python workers.
`python -m moulin.pipeline.rehearsal <JVM options>` returns when the JVM has ended and has written what it recorded.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from moulin.pipeline.session import start_session

_COLUMNS = (("id", LongType()), ("name", StringType()), ("at", TimestampType()))
_SCHEMA = StructType([StructField(n, t, metadata={"parquet.field.id": i}) for i, (n, t) in enumerate(_COLUMNS, 1)])


def rehearse(jvm_options: Sequence[str]) -> None:
    """Starts Spark with these options, runs the job, and waits until the JVM has ended."""
    spark = start_session("local[2]", "moulin rehearsal", {}, jvm_options)
    jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as folder:
        _run(spark, Path(folder))
    spark.stop()
    jvm.stdin.close()
    jvm.wait()


def _run(spark: SparkSession, folder: Path) -> None:
    rows = spark.range(20_000).selectExpr("id", "concat('n', id % 10) as name", "timestamp_seconds(id) as at")
    rows = rows.select(*(F.col(field.name).alias(field.name, metadata=field.metadata) for field in _SCHEMA))
    rows.sortWithinPartitions("id").write.parquet(f"{folder}/rows/segment=1")
    schema = StructType([*_SCHEMA, StructField("segment", LongType())])
    words = pa.table({"segment": pa.array([1], pa.int64()), "words": pa.array([[1, 2, 3]], pa.list_(pa.int64()))})
    live = (
        spark.read.option("basePath", f"{folder}/rows")
        .schema(schema)
        .parquet(f"{folder}/rows/segment=1")
        .withColumn("at_row", F.col("_metadata.row_index"))
        .join(F.broadcast(spark.createDataFrame(words)), "segment", "left")
        .where("words is null or (shiftright(get(words, cast(at_row >> 6 as int)), cast(at_row & 63 as int)) & 1L) = 0")
    )
    query = "with late as (select * from {live} where id > 5) select name, count(*), sum(id), max(at) from late"
    spark.sql(f"{query} group by name order by name", live=live).toArrow()
    live.groupBy("name").agg(F.max("at")).collect()
    live.createOrReplaceTempView("live")
    spark.sql("select a.name, count(*) from live a join live b on a.id = b.id + 1 group by 1").show()
    spark.createDataFrame(pa.table({"task": [0, 1]})).repartition(2).mapInArrow(_same, "task long").toArrow()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    rehearse(sys.argv[1:])
