"""A version of a keyed table, as readers see it."""

from __future__ import annotations

from dataclasses import dataclass

from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.region_spec import RegionSpec


@dataclass(frozen=True, slots=True)
class KeyedVersion:
    """What readers of a keyed table see: its state and segments at a version, and when that was looked up."""

    state: TableState
    segments: tuple[LiveSegment, ...]
    at: float

    def of_region(self, number: int) -> list[LiveSegment]:
        """The segments that may hold keys of a region."""
        return self.spec.searched(self.segments, number)

    @property
    def spec(self) -> RegionSpec:
        return RegionSpec.of(self.state.schema, self.state.properties)
