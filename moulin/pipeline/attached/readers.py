"""Reads of an attached session: tables of the lake by name, and through `format("moulin")`."""

# Decisions: docs/decisions/0460

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from moulin.errors import Unsupported
from moulin.model.names import full_name
from moulin.pipeline.attached.lakes import Attached, lake_name

_FORMAT = "moulin"


class LakeReader(DataFrameReader):
    """`spark.read`. Records its options, which PySpark passes to Java at once."""

    def __init__(
        self,
        session: SparkSession,
        attached: Attached,
        rows: Callable[[str, str], DataFrame],
        own: Callable[[DataFrame], DataFrame],
    ) -> None:
        super().__init__(session)
        self._moulin, self._moulin_rows, self._moulin_own = attached, rows, own
        self._moulin_format = ""
        self._moulin_schema: StructType | str | None = None
        self._moulin_options: dict[str, str] = {}

    def table(self, tableName: str) -> DataFrame:  # noqa: N803 - as PySpark names it
        name = lake_name(self._moulin, tableName)
        return super().table(tableName) if name is None else self._moulin_rows(*name)

    def format(self, source: str) -> LakeReader:
        super().format(source)
        self._moulin_format = source.lower()
        return self

    def schema(self, schema: StructType | str) -> LakeReader:
        super().schema(schema)
        self._moulin_schema = schema
        return self

    def option(self, key: str, value: Any) -> LakeReader:
        return self.options(**{key: value})

    def options(self, **options: Any) -> LakeReader:
        super().options(**options)
        texts = {name: _text(value) for name, value in options.items() if value is not None}
        self._moulin_options |= {name.lower(): text for name, text in texts.items()}
        return self

    def load(
        self,
        path: str | list[str] | None = None,
        format: str | None = None,
        schema: StructType | str | None = None,
        **options: Any,
    ) -> DataFrame:
        """A table of this lake is read as `to_spark` does it, so that filters choose what is read."""
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        if self._moulin_format == _FORMAT and not isinstance(path, list):
            named = self._moulin_options if path is None else {**self._moulin_options, "path": path}
            found = self._moulin.loaded(named, self._moulin_columns())
            if found is not None:
                return self._moulin_own(found)
        return super().load(path)

    def _moulin_columns(self) -> StructType | None:
        asked: Any = self._moulin_schema
        return StructType.fromDDL(asked) if isinstance(asked, str) else asked  # type: ignore[return-value]


class LakeStreamReader(DataStreamReader):
    """`spark.readStream`, whose errors name the call that streams a table of the lake."""

    def __init__(self, session: SparkSession, attached: Attached) -> None:
        super().__init__(session)
        self._moulin = attached

    def table(self, tableName: str) -> DataFrame:  # noqa: N803
        name = lake_name(self._moulin, tableName)
        if name is None:
            return super().table(tableName)
        raise Unsupported(
            "To stream the changes of a table of the lake, use spark.readStream.format('moulin')"
            f".option('lake', {self._moulin.lake.uri!r}).option('changes_since', 'now').load({full_name(*name)!r})."
        )


def _text(value: Any) -> str:
    """An option as PySpark hands it to Java."""
    return str(value).lower() if isinstance(value, bool) else str(value)
