"""Counts of records: over time, by level or another column, and by values of fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.console.logs.levels import ALL, COLUMNS, level_numbers
from moulin.console.logs.question import Question
from moulin.console.telemetry import GoOn, Moment, nanos
from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc

_SECOND: Final = 1_000_000_000
_STEPS: Final = tuple(
    seconds * _SECOND
    for seconds in (
        *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200),
        *(86400 * days for days in (1, 2, 7, 14, 30, 90, 365)),
    )
)
_FINE: Final = tuple(number * 10**power for power in range(9) for number in (1, 2, 5))
MOST_BUCKETS: Final = 1000
MOST_VALUES: Final = 10_000
"""Different values of a field that are counted at a time; of more, the most frequent so far are kept."""
_FACETS: Final = {"service": "service_name", "event": "event_name", "scope": "scope_name"}


@dataclass(frozen=True, slots=True)
class Histogram:
    """Records by bucket and level. Bucket n begins at `first + n * step`; the outer ones are cut by the range."""

    first: int
    step: int
    counts: npt.NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True, slots=True)
class Facet:
    """The most frequent values of a field; `distinct` counts all of them, at least, when `cut`."""

    field: str
    values: list[tuple[str | None, int]]
    distinct: int
    cut: bool


def step_of(start: int, end: int, buckets: int) -> int:
    """A step that people can read, with which a range has at most so many buckets."""
    wanted = -(-(end - start) // max(buckets - 1, 1))
    return next((step for step in (*_FINE, *_STEPS) if step >= wanted), wanted)


def histogram(moment: Moment, question: Question, *, buckets: int, go_on: GoOn) -> Histogram:
    """How many records each step of a range has, by level. The range must have both ends."""
    start, end = question.start, question.end
    if start is None or end is None or end <= start:
        raise InvalidInput("A histogram needs a range that ends after it starts.")
    step = step_of(start, end, min(buckets, MOST_BUCKETS))
    first = start // step * step
    width = -(-(end - first) // step)
    counts = np.zeros(width * len(ALL), np.int64)
    for rows in moment.batches(question.of(moment), (*moment.time_columns, *COLUMNS), go_on=go_on):
        places = (nanos(rows) - first) // step * len(ALL) + level_numbers(rows)
        counts += np.bincount(places, minlength=len(counts))
    return Histogram(first, step, counts.reshape(width, len(ALL)))


def facets(moment: Moment, question: Question, fields: Sequence[str], *, most: int, go_on: GoOn) -> list[Facet]:
    """The most frequent values of fields: level, service, event, scope, or the name of an attribute."""
    known = {field: _Counted(field) for field in dict.fromkeys(fields)}
    columns = dict.fromkeys(name for one in known.values() for name in one.columns)
    for rows in moment.batches(question.of(moment), list(columns), go_on=go_on):
        for one in known.values():
            one.add(rows)
    return [one.facet(most) for one in known.values()]


class _Counted:
    """Counts of the values of one field."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._column = _FACETS.get(field)
        self._held = pa.table({"value": pa.array([], pa.string()), "count": pa.array([], pa.int64())})
        self._cut = False

    @property
    def columns(self) -> tuple[str, ...]:
        if self._field == "level":
            return COLUMNS
        return (self._column,) if self._column else ("attributes", "resource")

    def add(self, rows: pa.Table) -> None:
        counted = pc.value_counts(self._values(rows))
        fresh = pa.table({"value": counted.field("values"), "count": counted.field("counts")})
        both = pa.concat_tables([self._held, fresh]).group_by("value", use_threads=False).aggregate([("count", "sum")])
        self._held = both.rename_columns(["value", "count"]).select(["value", "count"])
        if self._held.num_rows > MOST_VALUES:
            self._cut = True
            self._held = self._held.sort_by([("count", "descending")]).slice(0, MOST_VALUES)

    def _values(self, rows: pa.Table) -> pa.Array:
        if self._field == "level":
            return pa.array(ALL).take(pa.array(level_numbers(rows)))
        if self._column:
            return _flat(rows.column(self._column))
        own, outer = (_flat(pc.map_lookup(rows.column(n), self._field, "first")) for n in ("attributes", "resource"))
        return pc.coalesce(own, outer)

    def facet(self, most: int) -> Facet:
        ordered = self._held.sort_by([("count", "descending"), ("value", "ascending")]).slice(0, most)
        values = list(zip(ordered["value"].to_pylist(), ordered["count"].to_pylist(), strict=True))
        return Facet(self._field, values, self._held.num_rows, self._cut)


def _flat(values: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([pa.array([], values.type), *values.chunks])


def _keys(maps: pa.MapArray) -> pa.Array:
    begin, end = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    return maps.keys.slice(begin, end - begin)


def attribute_names(rows: pa.Table, most: int) -> list[tuple[str, int]]:
    """The attributes that these rows have, the most frequent first."""
    keys = [_keys(chunk) for chunk in rows.column("attributes").chunks if len(chunk)]
    counted = pc.value_counts(pa.concat_arrays([pa.array([], pa.string()), *keys]))
    table = pa.table({"value": counted.field("values"), "count": counted.field("counts")})
    ordered = table.sort_by([("count", "descending"), ("value", "ascending")]).slice(0, most)
    return list(zip(ordered["value"].to_pylist(), ordered["count"].to_pylist(), strict=True))


__all__ = ["MOST_BUCKETS", "Facet", "Histogram", "attribute_names", "facets", "histogram", "step_of"]
