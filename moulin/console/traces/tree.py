"""The spans of one trace as a forest, in the order of a waterfall. Every span is in it once, however broken the trace.

The order comes from ranking a list: each span is entered and left once, and what follows each of these steps is known
from its children and siblings. Doubling the distance of the links gives every step its distance from the end.
"""

# Decisions: docs/decisions/0570

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moulin.console.traces.spans import numbers
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers

Flags = NDArray[np.bool_]
NONE = -1


@dataclass(frozen=True, slots=True)
class Forest:
    """Rows in the order of a waterfall: a span is followed by its children, by start. Arrays are by row.

    `parent` is NONE for roots. `orphan`: the parent is not there; `cut`: the parents led back to the span itself;
    `repeated`: an earlier row has the same span id; `early`: it starts before its parent does.
    """

    order: Integers
    parent: Integers
    depth: Integers
    orphan: Flags
    cut: Flags
    repeated: Flags
    early: Flags


def grow(spans: pa.Table) -> Forest:
    """The forest of the spans of one trace, in columns of OUTLINE."""
    start = numbers(spans, "start")
    ids, parents = spans["span_id"].combine_chunks(), spans["parent"].combine_chunks()
    parent = _first_rows(parents, ids)
    has_parent = pc.is_valid(parents).to_numpy(zero_copy_only=False)
    first = _first_rows(ids, ids)
    cut = _cycles(parent, start)
    parent = np.where(cut, NONE, parent)
    order, depth = _walk(parent, start)
    at = np.arange(len(start))
    return Forest(
        order,
        parent,
        depth,
        orphan=has_parent & (parent == NONE) & ~cut,
        cut=cut,
        repeated=(first != NONE) & (first != at),
        early=(parent != NONE) & (start < start[parent]),
    )


def _first_rows(wanted: pa.StringArray, ids: pa.StringArray) -> Integers:
    """The first row with each wanted id; NONE where there is none."""
    found = pc.index_in(wanted, value_set=ids, skip_nulls=True)
    return np.asarray(pc.fill_null(found, NONE), np.int64)


def _rounds(steps: int) -> int:
    """How often a distance is doubled until it is at least so many steps."""
    return max(1, int(steps).bit_length())


def _cycles(parent: Integers, start: Integers) -> Flags:
    """The first span of each cycle of parents: without its parent, the cycle is a tree."""
    count = len(parent)
    above = np.append(np.where(parent == NONE, count, parent), count)
    far = above
    for _ in range(_rounds(count)):
        far = far[far]
    in_cycle = np.zeros(count + 1, np.bool_)
    # following a link far enough leads to the end or into a cycle, and each member of a cycle is reached
    in_cycle[far] = True
    in_cycle = in_cycle[:count]
    if not in_cycle.any():
        return in_cycle
    rank = np.empty(count + 1, np.int64)
    rank[np.append(np.lexsort((np.arange(count), start)), count)] = np.arange(count + 1)
    least, far = rank, above
    for _ in range(_rounds(count)):
        least, far = np.minimum(least, least[far]), far[far]
    chosen: Flags = in_cycle & (least[:count] == rank[:count])
    return chosen


def _walk(parent: Integers, start: Integers) -> tuple[Integers, Integers]:
    """Rows in order, and how deep each lies."""
    count = len(parent)
    at = np.arange(count)
    siblings = np.lexsort((at, start, parent))
    same = parent[siblings[1:]] == parent[siblings[:-1]]
    # Step v enters span v, step count + v leaves it, and 2 * count is the end.
    following = np.empty(2 * count + 1, np.int64)
    following[:count] = count + at
    following[count:-1] = np.where(parent == NONE, 2 * count, count + parent)
    following[-1] = 2 * count
    following[count + siblings[:-1][same]] = siblings[1:][same]
    eldest = siblings[np.append(True, ~same)] if count else siblings
    eldest = eldest[parent[eldest] != NONE]
    following[parent[eldest]] = eldest
    to_end = np.ones(2 * count + 1, np.int64)
    opened = np.repeat(np.asarray([1, -1]), count)
    opened = np.append(opened, 0)
    to_end[-1] = 0
    for _ in range(_rounds(2 * count)):
        to_end = to_end + to_end[following]
        opened = opened + opened[following]
        following = following[following]
    return np.argsort(-to_end[:count], kind="stable"), -opened[:count]


def main_root(forest: Forest, start: Integers, end: Integers) -> int:
    """The row of the first root; of one that lost its parent only where there is no other. REQUIRES: a span."""
    roots = np.flatnonzero(forest.parent == NONE)
    real = roots[~(forest.orphan | forest.cut)[roots]]
    roots = real if len(real) else roots
    return int(roots[np.lexsort((-end[roots], start[roots]))[0]])


__all__ = ["NONE", "Forest", "grow", "main_root"]
