"""Points of metrics as series: rows ordered by series and time, without duplicates."""

# Decisions: docs/decisions/0660

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.console.telemetry import GoOn, Moment, Times, nanos
from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.otel import NANOS, SERVICE
from moulin.model.predicate import Predicate

MOST_POINTS: Final = 2_000_000
MOST_SERIES: Final = 10_000
_PLAIN: Final = ("name", "kind", "unit", "temporality", "monotonic", SERVICE, "scope_name")
_MAPS: Final = ("attributes", "resource")
NO_VALUE: Final = 1
"""The flag of a point that says: from here on there is no value."""
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Series:
    """What the points of a series share."""

    name: str
    kind: str
    unit: str
    temporality: str
    monotonic: bool
    service: str
    scope: str
    attributes: tuple[tuple[str, str], ...]
    resource: tuple[tuple[str, str], ...]

    @property
    def is_delta(self) -> bool:
        return self.temporality == "delta"

    def value(self, key: str) -> str | None:
        """An attribute of the points, or of their resource."""
        return dict(self.attributes).get(key, dict(self.resource).get(key))


@dataclass(frozen=True)
class Points:
    """Points in the order of series and time. `rows` has the columns that were asked for, a row for each point."""

    series: Sequence[Series]
    of: Integers
    times: Times
    rows: pa.Table

    def runs(self) -> list[tuple[int, slice]]:
        """The points of each series that has some."""
        edges = np.flatnonzero(np.diff(self.of, prepend=-1, append=-1))
        return [(int(self.of[a]), slice(int(a), int(b))) for a, b in itertools.pairwise(edges)]

    def take(self, kept: Integers | npt.NDArray[np.bool_]) -> Points:
        """Some of the points, by their indices in order or by a mask."""
        indices = np.flatnonzero(kept) if kept.dtype == np.bool_ else kept
        return Points(self.series, self.of[indices], self.times[indices], self.rows.take(pa.array(indices)))

    def flags(self) -> Integers:
        return np.asarray(pc.fill_null(self.rows.column("flags"), 0)).astype(np.int64)

    def number(self, name: str) -> Floats:
        """A column of numbers; what is null is NaN."""
        return np.asarray(self.rows.column(name).cast(pa.float64()).fill_null(np.nan), np.float64)

    def values(self) -> Floats:
        """The values of gauges and sums, whether whole or not."""
        whole = self.number("value_int")
        real = self.number("value")
        return np.where(np.isnan(real), whole, real)

    def starts(self) -> Times:
        """When counting began, 0 where the sender did not say."""
        rows = self.rows
        begin = rows.column("start_time")
        filled = rows.select([name for name in rows.column_names if name.startswith("start_time")])
        known = np.asarray(begin.is_valid())
        exact = filled.set_column(
            filled.column_names.index("start_time"), "start_time", pc.fill_null(begin, pa.scalar(0, begin.type))
        )
        return np.where(known, nanos(exact, "start_time"), 0) if rows.num_rows else np.zeros(0, np.int64)


def start_columns(moment: Moment) -> tuple[str, ...]:
    """The columns that `Points.starts` needs."""
    known = {field.name for field in moment.schema.fields}
    return tuple(name for name in ("start_time", "start_time" + NANOS) if name in known)


def read_points(moment: Moment, asked: Predicate, columns: Sequence[str], *, go_on: GoOn) -> Points:
    """The points that are asked for. InvalidInput when there are more than are read at once."""
    wanted = list(dict.fromkeys([*columns, "flags"]))
    reader = _Reader(wanted, moment.empty(wanted))
    for rows in moment.batches(asked, [*dict.fromkeys([*moment.time_columns, *wanted, *_PLAIN, *_MAPS])], go_on=go_on):
        reader.add(rows)
    return reader.points()


class _Reader:
    def __init__(self, columns: Sequence[str], empty: pa.Table) -> None:
        self._columns = list(columns)
        self._held: list[pa.Table] = [empty]
        self._codes: list[Integers] = [np.zeros(0, np.int64)]
        self._times: list[Times] = [np.zeros(0, np.int64)]
        self._known: dict[str, int] = {}
        self._numbers: dict[Series, int] = {}
        self._count = 0

    def add(self, rows: pa.Table) -> None:
        self._count += rows.num_rows
        if self._count > MOST_POINTS:
            raise InvalidInput(f"More than {MOST_POINTS:,} points fit: ask for a shorter range, or for fewer series.")
        for batch in rows.to_batches():
            if batch.num_rows:
                self._codes.append(self._number(batch))
        self._times.append(nanos(rows))
        self._held.append(rows.select(self._columns))

    def _number(self, batch: pa.RecordBatch) -> Integers:
        coded = _identity(batch).dictionary_encode()
        indices = np.asarray(coded.indices).astype(np.int64)
        _, first = np.unique(indices, return_index=True)
        numbers = np.zeros(len(coded.dictionary), np.int64)
        for text, code, row in zip(coded.dictionary.to_pylist(), range(len(numbers)), first.tolist(), strict=True):
            if (found := self._known.get(text)) is None:
                series = _series(batch.slice(row, 1))
                found = self._known[text] = self._numbers.setdefault(series, len(self._numbers))
            numbers[code] = found
        if len(self._numbers) > MOST_SERIES:
            raise InvalidInput(f"More than {MOST_SERIES:,} series fit: ask for fewer by their attributes.")
        return numbers[indices]

    def points(self) -> Points:
        of, times = np.concatenate(self._codes), np.concatenate(self._times)
        order = np.lexsort((times, of))
        of, times = of[order], times[order]
        if len(of):
            once = np.append((of[1:] != of[:-1]) | (times[1:] != times[:-1]), True)
            order, of, times = order[once], of[once], times[once]
        rows = pa.concat_tables(self._held).take(pa.array(order))
        return Points(list(self._numbers), of, times, rows)


def _series(row: pa.RecordBatch) -> Series:
    (found,) = row.select([*_PLAIN, *_MAPS]).to_pylist(maps_as_pydicts="lossy")

    def pairs(name: str) -> tuple[tuple[str, str], ...]:
        return tuple(sorted((str(key), value or "") for key, value in (found[name] or {}).items()))

    return Series(
        found["name"] or "",
        found["kind"] or "",
        found["unit"] or "",
        found["temporality"] or "",
        bool(found["monotonic"]),
        found[SERVICE] or "",
        found["scope_name"] or "",
        pairs("attributes"),
        pairs("resource"),
    )


def _identity(batch: pa.RecordBatch) -> pa.Array:
    """A text for each row, the same for rows of one series alone. Each part has its length before it."""
    parts = [batch.column(name).cast(pa.string()) for name in _PLAIN]
    return pc.binary_join_element_wise(
        *(_measured(part) for part in parts), *(_measured(_map_text(batch.column(name))) for name in _MAPS), ""
    )


def _measured(texts: pa.Array) -> pa.Array:
    length = pc.binary_length(texts).cast(pa.string())
    return pc.fill_null(pc.binary_join_element_wise(length, texts, ":"), "-")


def _map_text(maps: pa.MapArray) -> pa.Array:
    """The pairs of each map as one text, in the order in which they came."""
    offsets = np.asarray(maps.offsets)
    size = int(offsets[-1] - offsets[0])
    keys, items = (one.slice(int(offsets[0]), size) for one in (maps.keys, maps.items))
    pairs = pc.binary_join_element_wise(_measured(keys), _measured(items), "")
    lists = pa.ListArray.from_arrays(pa.array(offsets - offsets[0], pa.int32()), pairs)
    joined = pc.binary_join(lists, "")
    return pc.if_else(maps.is_null(), pa.scalar("", pa.string()), joined) if maps.null_count else joined


def keys_of(maps: pa.MapArray) -> tuple[pa.Array, Integers]:
    """The keys of maps, and the row of each."""
    offsets = np.asarray(maps.offsets)
    keys = maps.keys.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    return keys, np.repeat(np.arange(len(maps)), np.diff(offsets))


__all__ = [
    "MOST_POINTS",
    "MOST_SERIES",
    "NO_VALUE",
    "Floats",
    "Integers",
    "Points",
    "Series",
    "keys_of",
    "read_points",
    "start_columns",
]
