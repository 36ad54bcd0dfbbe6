"""Writers of DataFrames that came from an attached session.

All PySpark DataFrames have one class, and each has its session: `write`, `writeTo`, `writeStream` and
`mergeInto` of that class are replaced once, and check whether the session has an attached lake. For other sessions they
are unchanged.
"""

# Decisions: docs/decisions/0267, docs/decisions/0285

from __future__ import annotations

import threading
from typing import Any

from pyspark.sql import Column, DataFrame, DataFrameWriter
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.readwriter import DataFrameWriterV2
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from moulin.errors import InvalidInput, Unsupported
from moulin.model.names import full_name
from moulin.pipeline.attached.lakes import Attached, lake_name
from moulin.pipeline.sql.catalyst import on_branches
from moulin.pipeline.write.save import Save, overwritten, partition_field, save

_MODES = {
    "append": Save.CREATE_OR_APPEND,
    "overwrite": Save.CREATE_OR_REPLACE,
    "ignore": Save.CREATE_OR_KEEP,
    "error": Save.CREATE,
    "errorifexists": Save.CREATE,
    "default": Save.CREATE,
}
_lock = threading.Lock()
_known: dict[str, Any] = {}


def know_writers() -> None:
    """Patch DataFrames to check whether their session has an attached lake. Done once."""
    frames: Any = ClassicFrame
    with _lock:
        if _known:
            return
        _known.update(write=frames.write, writeTo=frames.writeTo, mergeInto=frames.mergeInto)
        _known.update(writeStream=frames.writeStream)
        frames.write = property(_write, doc=frames.write.__doc__)
        frames.writeStream = property(_write_stream, doc=frames.writeStream.__doc__)
        frames.writeTo = _write_to
        frames.mergeInto = _merge_into


def _attached(frame: DataFrame) -> Attached | None:
    return getattr(frame.sparkSession, "_moulin", None)


def _write(frame: DataFrame) -> DataFrameWriter:
    lake = _attached(frame)
    writer: DataFrameWriter = _known["write"].fget(frame) if lake is None else LakeWriter(frame, lake)
    return writer


def _write_stream(frame: DataFrame) -> DataStreamWriter:
    lake = _attached(frame)
    writer: DataStreamWriter = _known["writeStream"].fget(frame) if lake is None else LakeStreamWriter(frame, lake)
    return writer


def _write_to(frame: DataFrame, table: str) -> DataFrameWriterV2:
    lake = _attached(frame)
    name = None if lake is None else lake_name(lake, table)
    if lake is None or name is None:
        other: DataFrameWriterV2 = _known["writeTo"](frame, table)
        return other
    return LakeWriterV2(frame, on_branches(table), lake, full_name(*name))


def _merge_into(frame: DataFrame, table: str, condition: Column) -> Any:
    lake = _attached(frame)
    if lake is None or lake_name(lake, table) is None:
        return _known["mergeInto"](frame, table, condition)
    return LakeMergeWriter(frame, on_branches(table), condition, lake)


class LakeWriter(DataFrameWriter):
    """`frame.write`: tables of the lake are saved and inserted into by name."""

    def __init__(self, frame: DataFrame, lake: Attached) -> None:
        super().__init__(frame)
        self._moulin = lake
        self._mode, self._partitions = "error", list[str]()

    def mode(self, saveMode: str | None) -> DataFrameWriter:  # noqa: N803
        if saveMode is not None:
            self._mode = saveMode.lower()
        return super().mode(saveMode)

    def partitionBy(self, *cols: Any) -> DataFrameWriter:  # noqa: N802
        self._partitions = list(cols[0]) if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else list(cols)
        return super().partitionBy(*cols)

    def saveAsTable(  # noqa: N802
        self,
        name: str,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,  # noqa: N803
        **options: Any,
    ) -> None:
        found = lake_name(self._moulin, name)
        if found is None:
            super().saveAsTable(name, format, mode, partitionBy, **options)
            return
        self.mode(mode)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if self._mode not in _MODES:
            raise InvalidInput(f"The mode of a write must be append, overwrite, ignore or error, not {self._mode!r}.")
        save(self._moulin.lake, ".".join(found), self._df, _MODES[self._mode], partition_by=self._partitions)

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:  # noqa: N802, N803
        found = lake_name(self._moulin, tableName)
        if found is None:
            super().insertInto(tableName, overwrite)
            return
        replaces = self._mode == "overwrite" if overwrite is None else overwrite
        save(self._moulin.lake, ".".join(found), self._df, Save.INSERT_OVERWRITE if replaces else Save.INSERT)


class LakeWriterV2(DataFrameWriterV2):
    """`frame.writeTo` of a table of the lake."""

    def __init__(self, frame: DataFrame, table: str, lake: Attached, name: str) -> None:
        super().__init__(frame, table)
        self._moulin, self._name = lake, name
        self._properties: dict[str, Any] = {}
        self._partitions: list[str] = []

    def using(self, provider: str) -> DataFrameWriterV2:
        if provider.lower() != "moulin":
            raise Unsupported(f"Tables of the lake have one format: remove using({provider!r}).")
        return self

    def tableProperty(self, property: str, value: Any) -> DataFrameWriterV2:  # noqa: N802
        self._properties[property] = value
        return self

    def partitionedBy(self, col: Any, *cols: Any) -> DataFrameWriterV2:  # noqa: N802
        columns = [F.col(one) if isinstance(one, str) else one for one in (col, *cols)]
        self._partitions = [partition_field(_expression(self._df, one).sql()) for one in columns]
        return self

    def create(self) -> None:
        self._save(Save.CREATE)

    def replace(self) -> None:
        self._save(Save.REPLACE)

    def createOrReplace(self) -> None:  # noqa: N802
        self._save(Save.CREATE_OR_REPLACE)

    def append(self) -> None:
        self._save(Save.APPEND)

    def overwrite(self, condition: Any) -> None:
        column: Any = F.expr(condition) if isinstance(condition, str) else condition
        node = column._jc.node()
        is_text = node.getClass().getSimpleName() in ("SqlExpression", "Literal")
        self._save(Save.OVERWRITE, overwritten(node.sql() if is_text else None))

    def overwritePartitions(self) -> None:  # noqa: N802
        self._save(Save.OVERWRITE_PARTITIONS)

    def _save(self, how: Save, where: str | None = None) -> None:
        save(
            self._moulin.lake,
            self._name,
            self._df,
            how,
            where=where,
            partition_by=self._partitions,
            properties=self._properties,
        )


class LakeStreamWriter(DataStreamWriter):
    """`frame.writeStream`, whose errors name the call that streams into a table of the lake."""

    def __init__(self, frame: DataFrame, lake: Attached) -> None:
        super().__init__(frame)
        self._moulin = lake

    def toTable(self, tableName: str, *args: Any, **options: Any) -> StreamingQuery:  # noqa: N802, N803
        name = lake_name(self._moulin, tableName)
        if name is None:
            return super().toTable(tableName, *args, **options)
        raise Unsupported(
            "Use frame.writeStream.format('moulin')"
            f".option('lake', {self._moulin.lake.uri!r}).option('checkpointLocation', ...).start({full_name(*name)!r})."
        )


class LakeMergeWriter(MergeIntoWriter):
    """`frame.mergeInto` of a table of the lake: the statement MERGE, with a source that has no name."""

    def __init__(self, frame: DataFrame, table: str, condition: Column, lake: Attached) -> None:
        super().__init__(frame, table, condition)
        self._moulin, self._frame = lake, frame

    def merge(self) -> None:
        self._moulin.change(self._jwriter.mergeCommand(), None, foreign=True)


def _expression(frame: DataFrame, column: Column) -> Any:
    session: Any = frame.sparkSession._jsparkSession
    return session.expression(column._jc)
