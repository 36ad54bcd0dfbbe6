"""A version of a keyed table, as readers see it."""

from __future__ import annotations

from dataclasses import dataclass

from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment


@dataclass(frozen=True, slots=True)
class KeyedVersion:
    """What readers of a keyed table see: its state and segments at a version, and when that was looked up."""

    state: TableState
    segments: tuple[LiveSegment, ...]
    at: float

    def of_region(self, number: int) -> list[LiveSegment]:
        return [segment for segment in self.segments if segment.facts.region == number]
