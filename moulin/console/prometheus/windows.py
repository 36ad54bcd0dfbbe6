"""Range functions over the samples before each step, as in Prometheus.

A window is open on the left: a sample at its start is excluded.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
LOOKBACK: Final = 300_000
"""Milliseconds after which a sample is not the value of its series any more."""


def latest(times: Times, values: Floats, stale: Mask, steps: Times) -> tuple[Floats, Mask]:
    """The last value at each step, unless it is too old, or a marker says that there is none."""
    before = np.searchsorted(times, steps, side="right") - 1
    at = np.maximum(before, 0)
    known = (before >= 0) & (times[at] > steps - LOOKBACK) & ~stale[at]
    return np.where(known, values[at], np.nan), known


def over_range(function: str, times: Times, values: Floats, steps: Times, size: int) -> tuple[Floats, Mask]:
    """A function of the samples in (step - size, step], for each step; times are milliseconds, without markers."""
    low = np.searchsorted(times, steps - size, side="right")
    high = np.searchsorted(times, steps, side="right")
    count = high - low
    if function in ("rate", "increase", "delta"):
        return _extrapolated(function, times, values, steps, size, low, high)
    if function in ("irate", "idelta"):
        return _instant(function, times, values, low, high)
    known = count > 0
    if function == "count_over_time":
        return count.astype(float), known
    if function == "present_over_time":
        return np.ones(len(steps)), known
    if function == "last_over_time":
        return values[np.maximum(high - 1, 0)], known
    return _reduced(function, values, low, high, known), known


def _reduced(function: str, values: Floats, low: Times, high: Times, known: Mask) -> Floats:
    reduce: Any = {"min_over_time": np.fmin, "max_over_time": np.fmax}.get(function, np.add)
    found = np.full(len(low), np.nan)
    if known.any():
        pairs = np.stack([low[known], high[known]], axis=1).ravel()
        with np.errstate(invalid="ignore"):
            found[known] = reduce.reduceat(np.append(values, 0.0), pairs)[::2]
    return found / np.maximum(high - low, 1) if function == "avg_over_time" else found


def _extrapolated(
    function: str, times: Times, values: Floats, steps: Times, size: int, low: Times, high: Times
) -> tuple[Floats, Mask]:
    known = high - low > 1
    found = np.full(len(steps), np.nan)
    if not known.any():
        return found, known
    first, last, number = low[known], high[known] - 1, (high - low - 1)[known]
    gained = values[last] - values[first]
    is_counter = function != "delta"
    if is_counter:
        fallen = np.where(values[1:] < values[:-1], values[:-1], 0.0)
        lost = np.concatenate([[0.0], np.cumsum(fallen)])
        gained = gained + lost[last] - lost[first]
    sampled = (times[last] - times[first]) / 1000
    between = sampled / number
    to_start = (times[first] - (steps[known] - size)) / 1000
    to_end = (steps[known] - times[last]) / 1000
    to_start = np.where(to_start >= between * 1.1, between / 2, to_start)
    if is_counter:
        with np.errstate(divide="ignore", invalid="ignore"):
            to_zero = sampled * (values[first] / gained)
        may = (gained > 0) & (values[first] >= 0)
        to_start = np.where(may & (to_zero < to_start), to_zero, to_start)
    to_end = np.where(to_end >= between * 1.1, between / 2, to_end)
    factor = (sampled + to_start + to_end) / sampled
    found[known] = gained * (factor / (size / 1000) if function == "rate" else factor)
    return found, known


def _instant(function: str, times: Times, values: Floats, low: Times, high: Times) -> tuple[Floats, Mask]:
    known = high - low > 1
    found = np.full(len(low), np.nan)
    last = high[known] - 1
    gained = values[last] - values[last - 1]
    if function == "irate":
        gained = np.where(values[last] < values[last - 1], values[last], gained)
        gained = gained / ((times[last] - times[last - 1]) / 1000)
    found[known] = gained
    return found, known


__all__ = ["LOOKBACK", "Floats", "Mask", "Times", "latest", "over_range"]
