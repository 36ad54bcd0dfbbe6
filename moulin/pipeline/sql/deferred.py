"""Frames of large tables whose rows are chosen late: filters that follow count, as those in the text of a query do.

A deferred frame has a *draft*: the same frame over stand-ins. Methods that make another frame of this one alone are
applied to the draft. Everything else, such as an action, a join or a view, needs the frame itself: its plan is filled
with the rows that the draft asks for, once.
"""

# Decisions: docs/decisions/0303

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic import dataframe as classic

Fill = Callable[[DataFrame], DataFrame]
"""From a draft to the frame that is run."""

_DEFERRED = (
    *("filter", "where", "select", "selectExpr", "drop", "toDF", "alias"),
    *("withColumn", "withColumns", "withColumnRenamed", "withColumnsRenamed"),
    *("sort", "orderBy", "limit", "distinct", "dropDuplicates", "drop_duplicates"),
)


class DeferredFrame(classic.DataFrame):
    """A DataFrame that reads the rows it asks for. As thread-safe as Spark's own."""

    _moulin_filled: Any = None

    def __init__(self, draft: DataFrame, fill: Fill, session: SparkSession | None = None) -> None:
        """`fill` may hold what the rows need to stay readable: it lives as long as this frame and those made of it."""
        self._moulin_lock = threading.Lock()
        self._moulin_draft, self._moulin_fill = draft, fill
        super().__init__(None, session or draft.sparkSession)

    @property
    def _jdf(self) -> Any:
        with self._moulin_lock:
            if self._moulin_filled is None:
                self._moulin_filled = self._moulin_fill(self._moulin_draft)._jdf
            return self._moulin_filled

    @_jdf.setter
    def _jdf(self, made: Any) -> None:
        self._moulin_filled = made

    def of_session(self, session: SparkSession) -> DeferredFrame:
        """The same frame for another object of the same session."""
        return DeferredFrame(self._moulin_draft, self._moulin_fill, session)

    @property
    def schema(self) -> Any:
        return self._moulin_draft.schema

    @property
    def columns(self) -> list[str]:
        return self._moulin_draft.columns

    def count(self) -> int:
        if self.is_cached:
            return super().count()
        draft = self._moulin_draft.groupBy().count()
        return int(DeferredFrame(draft, self._moulin_fill, self.sparkSession).collect()[0][0])

    def __getitem__(self, item: Any) -> Any:
        return self._moulin_draft[item] if isinstance(item, str | int) else super().__getitem__(item)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_moulin_"):  # not made yet
            raise AttributeError(name)
        return getattr(self._moulin_draft, name)


def _deferred(name: str) -> Callable[..., DataFrame]:
    plain = getattr(classic.DataFrame, name)

    @wraps(plain)
    def method(self: DeferredFrame, *args: Any, **kwargs: Any) -> DataFrame:
        if not self.is_cached:
            try:
                draft = plain(self._moulin_draft, *args, **kwargs)
                return DeferredFrame(draft, self._moulin_fill, self.sparkSession)
            except AnalysisException:  # columns that files alone have, such as _metadata; or Spark says what is wrong
                pass
        found: DataFrame = plain(self, *args, **kwargs)
        return found

    return method


for _name in _DEFERRED:
    setattr(DeferredFrame, _name, _deferred(_name))
