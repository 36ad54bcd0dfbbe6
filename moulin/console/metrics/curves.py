"""The increase of counters in each step, for cumulative and delta series, including resets.

A series is a curve: it grows evenly between two of its points. So what a step gained does not depend on where the
points lie in it, and the steps of a series add up to what it gained in all.
"""

from __future__ import annotations

import numpy as np

from moulin.console.metrics.points import Floats
from moulin.console.telemetry import Times


def gains(
    times: Times, counts: Floats, starts: Times, edges: Times, *, is_delta: bool, total: Floats
) -> tuple[Floats, Floats]:
    """For each step between two edges what each column of `counts` gained, and the seconds of it that are covered.

    Rows are points by time. `total` is what falls only when the counter began again. What nothing is known of is 0
    with 0 seconds.
    """
    knots, grown = _curve(times, counts, starts, int(edges[0]), is_delta=is_delta, total=total)
    width = len(edges) - 1
    if len(knots) < 2:
        return np.zeros((width, counts.shape[1])), np.zeros(width)
    before = np.clip(np.searchsorted(knots, edges, side="right") - 1, 0, len(knots) - 2)
    part = (edges - knots[before]) / (knots[before + 1] - knots[before])
    part = np.clip(part, 0.0, 1.0)[:, None]
    reached = grown[before] + (grown[before + 1] - grown[before]) * part
    held = np.clip(edges, knots[0], knots[-1])
    return np.diff(reached, axis=0), np.diff(held) / 1e9


def _curve(
    times: Times, counts: Floats, starts: Times, begin: int, *, is_delta: bool, total: Floats
) -> tuple[Times, Floats]:
    """Times, and what was gained in all by then."""
    if is_delta:
        gained = counts
    else:
        again = np.ones(len(times), np.bool_)
        again[1:] = (total[1:] < total[:-1]) | (starts[1:] > times[:-1])
        earlier = np.vstack([np.zeros((1, counts.shape[1])), counts[:-1]])
        gained = np.where(again[:, None], counts, counts - earlier)
        if not begin <= starts[0] < times[0]:  # its value before the range, or an unknown start
            return times, np.cumsum(np.vstack([np.zeros((1, counts.shape[1])), gained[1:]]), axis=0)
    since = int(starts[0]) if 0 < starts[0] < times[0] else int(times[0]) - 1
    zero = np.zeros((1, counts.shape[1]))
    return np.concatenate([[since], times]), np.cumsum(np.vstack([zero, gained]), axis=0)


__all__ = ["gains"]
