"""Frames of large tables with late pruning: later filters prune like those in the text of a query.

A deferred frame has a *draft*: the same frame over stand-ins. Methods that make another frame of this one, joins and
aggregates are applied to the draft. Everything else, such as an action, a union or a view, needs the frame itself: its
plan is filled with the rows that the draft asks for, once.
"""

# Decisions: docs/decisions/0303, docs/decisions/0390

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql.classic import dataframe as classic

from moulin.pipeline.sql.catalyst import Catalyst
from moulin.pipeline.sql.pruning import Pruning

_DEFERRED = (
    *("filter", "where", "select", "selectExpr", "drop", "toDF", "alias"),
    *("withColumn", "withColumns", "withColumnRenamed", "withColumnsRenamed"),
    *("sort", "orderBy", "limit", "distinct", "dropDuplicates", "drop_duplicates"),
)
_JOINS = ("join", "crossJoin")
_GROUPS = ("groupBy", "groupby", "rollup", "cube")
_AGGREGATES = ("agg", "count", "mean", "avg", "max", "min", "sum")


class Fill:
    """From a draft to the frame that is run. What pins the rows of its tables may live as long as this object."""

    def __init__(self, catalyst: Catalyst, pruning: Pruning, parts: tuple[Fill, ...] = ()) -> None:
        self._catalyst, self._pruning, self._parts = catalyst, pruning, parts

    def __call__(self, draft: DataFrame) -> DataFrame:
        plan: Any = draft._jdf.queryExecution().analyzed()
        return self._catalyst.run(self._pruning.filled(plan))

    def together(self, other: Fill) -> Fill | None:
        """For drafts that are made of drafts of both; None when they are of different sessions or lakes."""
        if other is self:
            return self
        if other._catalyst is not self._catalyst:
            return None
        return Fill(self._catalyst, self._pruning.together(other._pruning), (self, other))


class DeferredFrame(classic.DataFrame):
    """A DataFrame that reads the rows it asks for. As thread-safe as Spark's own."""

    _moulin_filled: Any = None

    def __init__(self, draft: DataFrame, fill: Fill, session: SparkSession | None = None) -> None:
        """`fill` lives as long as this frame and those made of it."""
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

    def _moulin_apply(self, change: Callable[[DataFrame], DataFrame], fill: Fill) -> DataFrame:
        """A change of the draft; of the frame itself when it is cached or Spark refuses the draft."""
        if not self.is_cached:
            try:
                return DeferredFrame(change(self._moulin_draft), fill, self.sparkSession)
            except AnalysisException:  # columns that files alone have, such as _metadata; or Spark says what is wrong
                pass
        return change(self)

    def __getitem__(self, item: Any) -> Any:
        return self._moulin_draft[item] if isinstance(item, str | int) else super().__getitem__(item)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_moulin_"):  # not made yet
            raise AttributeError(name)
        return getattr(self._moulin_draft, name)


class DeferredGroups(GroupedData):
    """Groups of a deferred frame: their aggregates are deferred, and everything else is done with the filled frame."""

    def __init__(self, frame: DeferredFrame, draft: GroupedData, group: Callable[[], GroupedData]) -> None:
        self._moulin_draft, self._moulin_group = draft, group
        self._df, self.session = frame, frame.sparkSession

    @cached_property
    def _jgd(self) -> Any:
        return self._moulin_group()._jgd


def _deferred(name: str) -> Callable[..., DataFrame]:
    plain = getattr(classic.DataFrame, name)

    @wraps(plain)
    def method(self: DeferredFrame, *args: Any, **kwargs: Any) -> DataFrame:
        return self._moulin_apply(lambda frame: plain(frame, *args, **kwargs), self._moulin_fill)

    return method


def _joined(name: str) -> Callable[..., DataFrame]:
    plain = getattr(classic.DataFrame, name)

    @wraps(plain)
    def method(self: DeferredFrame, other: DataFrame, *args: Any, **kwargs: Any) -> DataFrame:
        fill, draft = self._moulin_fill, other
        if isinstance(other, DeferredFrame) and not other.is_cached:
            both = fill.together(other._moulin_fill)
            fill, draft = (fill, other) if both is None else (both, other._moulin_draft)

        def join(frame: DataFrame) -> DataFrame:
            found: DataFrame = plain(frame, other if frame is self else draft, *args, **kwargs)
            return found

        return self._moulin_apply(join, fill)

    return method


def _grouped(name: str) -> Callable[..., GroupedData]:
    plain = getattr(classic.DataFrame, name)

    @wraps(plain)
    def method(self: DeferredFrame, *args: Any) -> GroupedData:
        if not self.is_cached:
            try:
                return DeferredGroups(self, plain(self._moulin_draft, *args), lambda: plain(self, *args))
            except AnalysisException:
                pass
        found: GroupedData = plain(self, *args)
        return found

    return method


def _aggregated(name: str) -> Callable[..., DataFrame]:
    plain = getattr(GroupedData, name)

    @wraps(plain)
    def method(self: DeferredGroups, *args: Any) -> DataFrame:
        frame: Any = self._df
        try:
            return DeferredFrame(plain(self._moulin_draft, *args), frame._moulin_fill, self.session)
        except AnalysisException:
            found: DataFrame = plain(self, *args)
            return found

    return method


for _names, _make, _class in (
    (_DEFERRED, _deferred, DeferredFrame),
    (_JOINS, _joined, DeferredFrame),
    (_GROUPS, _grouped, DeferredFrame),
    (_AGGREGATES, _aggregated, DeferredGroups),
):
    for _name in _names:
        setattr(_class, _name, _make(_name))
