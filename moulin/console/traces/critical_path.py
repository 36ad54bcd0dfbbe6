"""The critical path of a trace: at each moment, the one span that everything above it waited for.

From the end of a root backwards: while a child runs that ended last, the child counts, else the span itself. A child
counts within its parent alone, so what ran on after it is on no path.
"""

# Decisions: docs/decisions/0571

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from moulin.console.traces.tree import Forest, main_root
from moulin.model.columns.arrays import Integers


class CriticalPath(NamedTuple):
    """Its parts by time, which follow one another without a gap: the row of a span, from when, and to when."""

    row: Integers
    start: Integers
    end: Integers


def critical_path(forest: Forest, start: Integers, end: Integers) -> CriticalPath:
    """The path of the first root; of one that lost its parent only where there is no other.

    REQUIRES: no span ends before it starts. Takes time for the spans on the path and their children alone.
    """
    parts: list[tuple[int, int, int]] = []
    by_parent = np.argsort(forest.parent, kind="stable")
    of = forest.parent[by_parent]
    first, stop = np.searchsorted(of, np.stack([np.arange(len(of)), np.arange(1, len(of) + 1)]))
    waiting = [
        (root, int(start[root]), int(end[root])) for root in ([main_root(forest, start, end)] if len(start) else [])
    ]
    while waiting:
        row, low, high = waiting.pop()
        children = by_parent[first[row] : stop[row]]
        if len(children):
            begun, ended = np.clip(start[children], low, high), np.clip(end[children], low, high)
            real = np.flatnonzero(begun < ended)
            real = real[np.lexsort((-begun[real], ended[real]))]
            children, begun, ended = children[real], begun[real], ended[real]
        left = len(children)
        while left and (left := int(np.searchsorted(ended[:left], high, side="right"))):
            left -= 1
            if ended[left] < high:
                parts.append((row, int(ended[left]), high))
            waiting.append((int(children[left]), int(begun[left]), int(ended[left])))
            high = int(begun[left])
        if low < high:
            parts.append((row, low, high))
    parts.sort(key=lambda part: part[1])
    found = np.asarray(parts, np.int64).reshape(-1, 3)
    return CriticalPath(*found.T)


__all__ = ["CriticalPath", "critical_path"]
