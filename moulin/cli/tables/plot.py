"""`moulin table show --plot`: a text plot of the segments of a table along its event time, by level."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from moulin.cli.values import moment, shown
from moulin.model.facts import LiveSegment

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH = 60


def plot(segments: Iterable[LiveSegment], width: int = _WIDTH) -> Iterator[str]:
    """The lines of the plot: time runs from left to right, and the height of a block shows how many segments overlap
    there.

    Segments without event times are counted below.
    """
    timed, timeless = [], 0
    for one in segments:
        if one.facts.time_min is None or one.facts.time_max is None:
            timeless += 1
        else:
            timed.append(one)
    if timed:
        low = min(one.facts.time_min for one in timed if one.facts.time_min is not None)
        high = max(one.facts.time_max for one in timed if one.facts.time_max is not None)
        levels = sorted({one.facts.level for one in timed})
        rows = {
            level: _overlaps([one for one in timed if one.facts.level == level], low, high, width) for level in levels
        }
        deepest = max(max(row) for row in rows.values())
        for level, row in rows.items():
            count = sum(one.facts.level == level for one in timed)
            yield f"level {level}  {''.join(_block(n, deepest) for n in row)}  {count:,} segments"
        begin, end = shown(moment(low)), shown(moment(high))
        yield f"         {begin}{end.rjust(width - len(begin))}"
        yield f"A full block: {deepest:,} segments overlap there."
    if timeless:
        yield f"{timeless:,} segments have no event times."


def _overlaps(segments: Sequence[LiveSegment], low: int, high: int, width: int) -> list[int]:
    """The number of segments that overlap each of `width` equal parts of the time from `low` to `high`."""
    steps = [0] * (width + 1)
    for one in segments:
        assert one.facts.time_min is not None
        assert one.facts.time_max is not None
        steps[_part(one.facts.time_min, low, high, width)] += 1
        steps[_part(one.facts.time_max, low, high, width) + 1] -= 1
    found, depth = [], 0
    for step in steps[:width]:
        depth += step
        found.append(depth)
    return found


def _part(at: int, low: int, high: int, width: int) -> int:
    return min(width - 1, (at - low) * width // max(1, high - low))


def _block(count: int, deepest: int) -> str:
    """A higher block for more segments; at least one step high."""
    return _BLOCKS[-(-count * (len(_BLOCKS) - 1) // deepest)]


__all__ = ["plot"]
