"""Collects few rows of a DataFrame to the driver as Arrow, without starting Python in Spark."""

# Decisions: docs/decisions/0271

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as sql

from moulin.model.columns import compute as pc
from moulin.pipeline.read.columns import quoted
from moulin.pipeline.runner import task_error

FEW_ROWS = 1 << 17
"""Rows are few when there are less than this."""

_READ_BYTES = 512 << 20  # what Spark reads at most: tasks may each give FEW_ROWS, so there must not be many of them
_WIDE = 256  # bytes of a row in texts and binaries, from which on it is not collected
_WIDE_MARK = "_moulin_wide"
_VARIABLE = (sql.StringType, sql.BinaryType)
_PLAIN = (
    *_VARIABLE,
    sql.BooleanType,
    sql.ByteType,
    sql.ShortType,
    sql.IntegerType,
    sql.LongType,
    sql.FloatType,
    sql.DoubleType,
    sql.DecimalType,
    sql.DateType,
    sql.TimestampType,
    sql.TimestampNTZType,
)
_TOO_LARGE = "spark.driver.maxResultSize"


def few_rows(frame: DataFrame) -> pa.Table | None:
    """All rows of a frame if they are few and narrow, else None. Raises the error of a task that failed.

    Columns of nested types are never narrow. REQUIRES: no two columns have the same name.
    """
    fields = frame.schema.fields
    if not all(type(field.dataType) in _PLAIN for field in fields):
        return None
    texts = [F.col(quoted(field.name)) for field in fields if isinstance(field.dataType, _VARIABLE)]
    marked = _marked(frame, texts) if texts else frame
    limited = _limited(marked, FEW_ROWS)
    try:  # Spark computes constant rows when it plans
        if _read_bytes(limited) > _READ_BYTES:
            return None
        rows = limited.toArrow()
    except (PySparkException, Py4JJavaError) as error:
        if _TOO_LARGE in str(error):
            return None
        raise task_error(error) from error
    if rows.num_rows >= FEW_ROWS:
        return None
    if not texts:
        return rows
    wide = rows.column(_WIDE_MARK)
    return None if pc.any(wide).as_py() else rows.drop_columns([_WIDE_MARK])


def _marked(frame: DataFrame, texts: list[Column]) -> DataFrame:
    """The rows without the texts of wide ones, which a last column marks."""
    width = reduce(Column.__add__, (F.coalesce(F.octet_length(text), F.lit(0)).cast("bigint") for text in texts))
    narrow = width <= _WIDE
    kept = [
        F.when(narrow, F.col(quoted(field.name))).alias(field.name)
        if isinstance(field.dataType, _VARIABLE)
        else F.col(quoted(field.name))
        for field in frame.schema.fields
    ]
    return frame.select(*kept, (~narrow).alias(_WIDE_MARK))


def _limited(frame: DataFrame, most: int) -> DataFrame:
    """At most so many rows of each task; if fewer than that come of all tasks together, they are all rows.

    This is the lower half of Spark's own LIMIT, without the shuffle that the upper half needs.
    """
    spark = frame.sparkSession
    jvm: Any = spark._jvm
    number = spark._jsparkSession.expression(F.lit(most)._jc)
    plan = jvm.org.apache.spark.sql.catalyst.plans.logical.LocalLimit(number, frame._jdf.logicalPlan())
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def _read_bytes(frame: DataFrame) -> int:
    """The size of what the frame reads, as Spark knows it: very much where it does not."""
    leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
    return sum(int(leaves.apply(index).stats().sizeInBytes()) for index in range(leaves.length()))
