"""The session: SQL and reads of tables."""

# Decisions: docs/decisions/0267

from __future__ import annotations

from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.sql_formatter import SQLStringFormatter
from pyspark.sql.streaming.readwriter import DataStreamReader

from moulin.pipeline.attached.catalog import LakeCatalog
from moulin.pipeline.attached.lakes import Attached, lake_name
from moulin.pipeline.attached.readers import LakeReader, LakeStreamReader
from moulin.pipeline.attached.writers import know_writers
from moulin.pipeline.session import plain
from moulin.pipeline.sql.deferred import DeferredFrame
from moulin.pipeline.sql.sql import check_is_statement


class AttachedSession(SparkSession):
    """A second Python object for a Spark session, with the same views, settings and jobs."""

    _moulin: Attached
    _moulin_plain: SparkSession

    @classmethod
    def of(cls, spark: SparkSession, lake: Attached) -> AttachedSession:
        """Nothing is started: PySpark's own session is not made again."""
        know_writers()
        own = plain(spark)
        made = cls.__new__(cls)
        made.__dict__.update({name: value for name, value in own.__dict__.items() if name != "catalog"})
        made._moulin, made._moulin_plain = lake, own
        return made

    def sql(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803 - as PySpark names it
        """Statements on tables of the lake run as in `lake.sql`, all others in Spark."""
        formatter = SQLStringFormatter(self)
        text = formatter.format(sqlQuery, **kwargs) if kwargs else sqlQuery
        try:
            if not self._moulin.names_lake(text, args):
                return super().sql(text, args)
            check_is_statement(text)
            return self._own(self._moulin.run(text, args, None, changes=True, foreign=True))
        finally:
            if kwargs:
                formatter.clear()

    def table(self, tableName: str) -> DataFrame:  # noqa: N803
        name = lake_name(self._moulin, tableName) if isinstance(tableName, str) else None
        return super().table(tableName) if name is None else self._rows(*name)

    @property
    def read(self) -> DataFrameReader:
        return LakeReader(self, self._moulin, self._rows, self._own)

    @property
    def readStream(self) -> DataStreamReader:  # noqa: N802
        return LakeStreamReader(self, self._moulin)

    @cached_property
    def catalog(self) -> LakeCatalog:
        return LakeCatalog(self, self._moulin)

    def newSession(self) -> SparkSession:  # noqa: N802
        return self._moulin.lake.attach(self._moulin_plain.newSession())

    def createDataFrame(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802
        """PySpark makes the session that does this the active one of the process: that stays Spark's own."""
        try:
            return super().createDataFrame(*args, **kwargs)
        finally:
            SparkSession._activeSession = self._moulin_plain

    def _rows(self, database: str, name: str) -> DataFrame:
        return self._own(self._moulin.rows(database, name))

    def _own(self, frame: DataFrame) -> DataFrame:
        """The frame as one of this session. Its versions are pinned as long as the original exists."""
        if isinstance(frame, DeferredFrame):
            return frame.of_session(self)
        own: Any = type(frame)(frame._jdf, self)
        own._moulin_frame = frame
        return own  # type: ignore[no-any-return]
