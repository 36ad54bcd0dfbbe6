"""A query of logs: a time range, a search, an SQL condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from moulin.console.logs.search import parse_search
from moulin.console.telemetry import Moment
from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import Condition
from moulin.model.schema.values import Schema

Also = Callable[[Schema], Condition]
"""A further condition, made for the schema of a table."""


@dataclass(frozen=True, slots=True)
class Question:
    """The records with a time in [start, end), in Unix nanoseconds, None for open, that all conditions hold for."""

    start: int | None = None
    end: int | None = None
    search: str = ""
    where: str | None = None
    also: Sequence[Also] = ()

    def between(self, start: int | None, end: int | None) -> Question:
        """The same within a range that may be narrower."""
        starts = [one for one in (self.start, start) if one is not None]
        ends = [one for one in (self.end, end) if one is not None]
        return replace(self, start=max(starts, default=None), end=min(ends, default=None))

    def of(self, moment: Moment) -> Predicate:
        """The question as a predicate over the columns of a table. InvalidInput for conditions that do not fit."""
        conditions = [parse_search(self.search, moment.schema), *(make(moment.schema) for make in self.also)]
        return moment.where(self.start, self.end, self.where or None, conditions)


__all__ = ["Also", "Question"]
