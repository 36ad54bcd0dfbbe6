"""An SQL expression over the columns of single rows, which Spark evaluates for rows of this process."""

# Decisions: docs/decisions/0624

from __future__ import annotations

import pyarrow as pa
import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from moulin.errors import InvalidInput
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import Schema
from moulin.pipeline.sql.resolver import refusing

_POSITION, _VALUE = "_moulin_position", "_moulin_value"
_REFUSED = "Spark refuses the expression"


class RowExpression:
    """The value of an expression for each row. `reads` are the columns that it names."""

    def __init__(self, spark: SparkSession, schema: Schema, sql: str) -> None:
        self._spark, self._sql = spark, sql
        self.reads = _reads(schema, sql)
        empty = arrow_schema(schema).empty_table().select(list(self.reads))
        with refusing(_REFUSED):
            _require_rowwise(self._valued(self._frame(empty)))

    def over(self, rows: pa.Table) -> pa.ChunkedArray:
        """The values of the expression, in the order of the rows."""
        try:
            with refusing(_REFUSED):
                found: pa.Table = self._valued(self._frame(rows.select(list(self.reads)))).toArrow()
        except PySparkException as error:
            raise InvalidInput(f"Spark cannot compute the expression: {str(error).splitlines()[0][:300]}") from None
        return found.sort_by(_POSITION).column(_VALUE)

    def _frame(self, rows: pa.Table) -> DataFrame:
        numbered = rows.append_column(_POSITION, pa.array(range(rows.num_rows), pa.int64()))
        return self._spark.createDataFrame(numbered)

    def _valued(self, frame: DataFrame) -> DataFrame:
        value: Column = F.expr(self._sql)
        return frame.select(_POSITION, value.alias(_VALUE))


def _reads(schema: Schema, sql: str) -> tuple[str, ...]:
    """The columns that an expression names; Spark finds them without regard to case, and fields behind a dot."""
    try:
        named = {
            part.name.casefold()
            for one in sqlglot.parse_one(sql, read="spark").find_all(exp.Column)
            for part in one.parts
        }
    except sqlglot.ParseError:
        raise InvalidInput("The expression cannot be parsed as SQL.") from None
    return tuple(field.name for field in schema.fields if field.name.casefold() in named)


def _require_rowwise(frame: DataFrame) -> None:
    """The expression gives one value for each row, and the same one whenever it is asked: nothing else is looked at."""
    plan = frame._jdf.queryExecution().analyzed()
    source = plan
    while source.nodeName() == "Project":
        source = source.child()
    if not source.children().isEmpty() or not plan.subqueriesAll().isEmpty():
        raise InvalidInput("The expression uses other rows: aggregates, windows and sub-queries are not allowed.")
    if not plan.deterministic():
        raise InvalidInput("The expression is not deterministic: rand(), uuid() and similar functions are not allowed.")


__all__ = ["RowExpression"]
