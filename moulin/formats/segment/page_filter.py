"""Finds the rows of a segment that may match a condition, by the bounds of pages: ranges of rows, before any is
decoded.
"""

# Decisions: docs/decisions/0370

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from moulin.formats.segment.page_bounds import Bounds, Ends, Flags, comparands_in
from moulin.model.columns.arrays import Integers
from moulin.model.predicate.condition import And, Column, Compare, Computed, Condition, Constant, In, Or
from moulin.model.predicate.domain import Domain, Leaf, unknown

BoundsOf = Callable[[Column], "Sequence[Bounds | None]"]
"""The bounds of a column in each row group; None where they are not known."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """Rows [start, stop), which ascend and do not touch."""

    starts: Integers
    stops: Integers

    @property
    def rows(self) -> int:
        return int((self.stops - self.starts).sum())

    def positions(self) -> Integers:
        """All of the rows."""
        lengths = self.stops - self.starts
        before = np.cumsum(lengths) - lengths
        return np.repeat(self.starts - before, lengths) + np.arange(int(lengths.sum()))


def may_match(condition: Condition, groups: Sequence[tuple[int, int]], bounds: BoundsOf) -> Stretches | None:
    """The rows that may match, of row groups that are each given by its first row and the one behind its last.

    None if nothing is known, so that all of them may.
    """
    match condition:
        case Constant(value):
            return None if value else _NOTHING
        case And(children):
            known = [found for child in children if (found := may_match(child, groups, bounds)) is not None]
            return _combined(known, every=True) if known else None
        case Or(children):
            parts = []
            for child in children:
                found = may_match(child, groups, bounds)
                if found is None:
                    return None
                parts.append(found)
            return _combined(parts, every=False)
        case Computed():
            return None
        case _:
            return _of_leaf(condition, groups, bounds(condition.column))


def within(stretches: Stretches, spans: Sequence[tuple[int, int]]) -> Stretches:
    """The rows that also lie in one of these spans, which ascend."""
    edges = np.asarray(spans, np.int64).reshape(-1, 2)
    return _combined([stretches, Stretches(edges[:, 0], edges[:, 1])], every=True)


def _of_leaf(leaf: Leaf, groups: Sequence[tuple[int, int]], found: Sequence[Bounds | None]) -> Stretches | None:
    if all(one is None for one in found):
        return None
    masks, starts, stops = [], [], []
    for (first, stop), one in zip(groups, found, strict=True):
        if one is None:
            masks.append(np.ones(1, np.bool_))
            starts.append(np.asarray([first]))
            stops.append(np.asarray([stop]))
        else:
            masks.append(_pages(leaf, one))
            starts.append(one.first_rows[:-1] + first)
            stops.append(one.first_rows[1:] + first)
    mask = np.concatenate(masks)
    return _joined(np.concatenate(starts)[mask], np.concatenate(stops)[mask])


def _pages(leaf: Leaf, bounds: Bounds) -> Flags:
    """The pages that may hold a match. No page has NaN."""
    domain = unknown(leaf.column).narrowed(leaf)
    found = bounds.nulls.copy() if domain.null else np.zeros(len(bounds.nulls), np.bool_)
    if not domain.value:
        return found
    try:
        if isinstance(leaf, Compare) and leaf.operator == "=":
            inside = _holding(bounds, comparands_in((leaf.comparand,), leaf.column.type))
        elif isinstance(leaf, In) and not leaf.negated:
            inside = _holding(bounds, comparands_in(leaf.comparands, leaf.column.type))
        else:
            inside = _overlapping(bounds, domain, leaf.column)
    except UnicodeEncodeError:  # half a surrogate pair, which no stored text has
        inside = np.ones(len(found), np.bool_)
    return found | (bounds.values & inside)


def _holding(bounds: Bounds, comparands: list[Any]) -> Flags:
    """Where one of the comparands, which ascend, lies between the bounds."""
    lower, upper = bounds.lower, bounds.upper
    if isinstance(lower, np.ndarray) and isinstance(upper, np.ndarray):
        if lower.dtype.kind == "i":
            limits = np.iinfo(np.int64)
            comparands = [value for value in comparands if limits.min <= value <= limits.max]
        wanted = np.asarray(comparands, lower.dtype)
        return np.searchsorted(wanted, lower, "left") < np.searchsorted(wanted, upper, "right")
    pairs = zip(lower, upper, strict=True)
    return np.asarray([bisect_left(comparands, low) < bisect_right(comparands, high) for low, high in pairs], np.bool_)


def _overlapping(bounds: Bounds, domain: Domain, column: Column) -> Flags:
    """Where a value between the bounds may be one of the domain."""
    found = np.ones(len(bounds.values), np.bool_)
    if domain.lower is not None:
        (least,) = comparands_in([domain.lower], column.type)
        found &= _compared(bounds.upper, least, (lambda a, b: a > b) if domain.lower_open else (lambda a, b: a >= b))
    if domain.upper is not None:
        (most,) = comparands_in([domain.upper], column.type)
        found &= _compared(bounds.lower, most, (lambda a, b: a < b) if domain.upper_open else (lambda a, b: a <= b))
    return found


def _compared(ends: Ends, value: Any, holds: Callable[[Any, Any], Any]) -> Flags:
    if isinstance(ends, np.ndarray):
        return np.asarray(holds(ends, value), np.bool_)
    return np.asarray([holds(end, value) for end in ends], np.bool_)


def _joined(starts: Integers, stops: Integers) -> Stretches:
    """Stretches that ascend, those that touch made one."""
    if not len(starts):
        return _NOTHING
    apart = starts[1:] != stops[:-1]
    return Stretches(starts[np.append(True, apart)], stops[np.append(apart, True)])


def _combined(parts: Sequence[Stretches], *, every: bool) -> Stretches:
    """The rows in every part, or in any."""
    if len(parts) == 1:
        return parts[0]
    edges = np.unique(np.concatenate([side for part in parts for side in (part.starts, part.stops)]))
    if not len(edges):
        return _NOTHING
    starts, stops = edges[:-1], edges[1:]
    inside = [
        np.searchsorted(part.starts, starts, "right") > np.searchsorted(part.stops, starts, "right") for part in parts
    ]
    kept = np.logical_and.reduce(inside) if every else np.logical_or.reduce(inside)
    return _joined(starts[kept], stops[kept])


_NOTHING = Stretches(np.empty(0, np.int64), np.empty(0, np.int64))

__all__ = ["BoundsOf", "Stretches", "may_match", "within"]
