"""Changes of tables, prepared from one version and passed to the committer."""

# Decisions: docs/decisions/0014

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from pyroaring import BitMap64

from moulin.errors import MoulinError, Unavailable
from moulin.model.facts import SegmentFacts, VectorFacts
from moulin.model.operations import Claim, Kind, Operation, RegionUse


@dataclass(frozen=True, slots=True)
class DataChange:
    """New segments, and rows to hide: positions of segments as `read_version` showed them.

    `whole` are segments whose live rows are all deleted, each with the vector seen; they are removed instead of getting
    a vector. `added_positions` are deleted rows of the new segments. With `exact`, the change was computed from the
    rows that it hides: if one of them has been removed before the commit, it must be computed again.
    """

    table_id: UUID
    read_version: int
    kind: Kind
    added: tuple[SegmentFacts, ...] = ()
    positions: Mapping[int, BitMap64] = field(default_factory=dict)
    whole: Mapping[int, int] = field(default_factory=dict)
    everything: bool = False
    added_positions: Mapping[int, BitMap64] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=dict)
    regions: tuple[RegionUse, ...] = ()
    exact: bool = False

    @property
    def is_inline(self) -> bool:
        """Whether it adds only inline segments, without files."""
        hides = self.positions or self.whole or self.added_positions
        return not hides and all(facts.inline is not None for facts in self.added)


@dataclass(frozen=True, slots=True)
class SettingChange:
    """An operation on settings; nothing to prepare."""

    table_id: UUID
    read_version: int
    operation: Operation
    summary: Mapping[str, str] = field(default_factory=dict)
    regions: tuple[RegionUse, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionChange:
    """Inputs with the vectors they were read with, the segments written from them, and the journals that map
    positions. `journal_outputs` names the first output of each journal; `claim` is that of the merge task, if any.
    `indexes` are files of secondary indexes that cover what was written, to be committed with it.
    """

    table_id: UUID
    read_version: int
    inputs: Mapping[int, VectorFacts | None]
    added: tuple[SegmentFacts, ...]
    journals: tuple[str, ...]
    summary: Mapping[str, str] = field(default_factory=dict)
    journal_outputs: tuple[int, ...] = ()
    claim: Claim | None = None
    indexes: tuple[SettingChange, ...] = ()


Change = DataChange | CompactionChange | SettingChange


@contextmanager
def after_commit() -> Iterator[None]:
    """Steps after a commit: errors in them become Unavailable, because the commit has happened."""
    try:
        yield
    except Unavailable:
        raise
    except MoulinError as error:
        raise Unavailable(
            f"The change was committed, but a later step failed: {error.message} Check the table before repeating it."
        ) from error
