"""A version of a keyed table, as readers see it."""

from __future__ import annotations

from dataclasses import dataclass

from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.region_spec import RegionSpec


@dataclass(frozen=True, slots=True)
class KeyedVersion:
    """The version of a keyed table for readers: its state and segments, and the time of the look-up."""

    state: TableState
    segments: tuple[LiveSegment, ...]
    at: float

    def of_region(self, number: int) -> list[LiveSegment]:
        """The segments that may hold keys of a region."""
        return self.spec.searched(self.segments, number)

    @property
    def spec(self) -> RegionSpec:
        return RegionSpec.of(self.state.schema, self.state.properties)
