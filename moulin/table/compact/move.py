"""Moves whole segments, in which all rows match, to a base path. Rows, their ids and their versions do not change.

Each segment is moved by a separate compaction with a journal, so concurrent operations handle it like a compaction: a
delete follows the journal, and the old file is deleted when no kept version uses it.
"""

# Decisions: docs/decisions/0433

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from moulin.errors import NotFound
from moulin.model.entities import BasePath, TableState
from moulin.model.facts import LiveSegment
from moulin.model.where import Where, parse_where
from moulin.storage import paths
from moulin.table.compact.compaction import rewrite_at
from moulin.table.context import Context
from moulin.table.write.writes import find_matches


@dataclass(frozen=True, slots=True)
class Move:
    """The result of a move: moved segments and rows, and their bytes in the base path."""

    version: int
    segments: int = 0
    rows: int = 0
    bytes: int = 0


def move(
    context: Context,
    load: Callable[[], TableState],
    where: Where,
    base: str,
    progress: Callable[[int, int], None] | None = None,
) -> Move:
    """Move the segments in which all rows match; segments already in the base path stay."""
    found = next((one for one in context.catalog.bases() if one.name == base), None)
    if found is None:
        raise NotFound(f"Base path {base!r} does not exist; register it with lake.add_base(uri, name={base!r}).")
    context.bases.open_base(found)
    state = load()
    whole = [segment for segment in _whole(context, state, where) if not _is_below(segment, found)]
    if not whole:
        return Move(state.head_version)
    place = f"{paths.moved_prefix(found.id, context.catalog.uuid)}/"
    done = rewrite_at(context, state, whole, place, progress)
    return Move(done.version, done.segments_out, done.rows, done.bytes_out)


def _whole(context: Context, state: TableState, where: Where) -> Sequence[LiveSegment]:
    """The segments whose live rows all match."""
    if where is None:
        return context.catalog.segments(state.id, state.version, with_columns=False)
    found = find_matches(context, state, parse_where(where, state.schema))
    numbers = {segment.facts.number for segment in found.whole}
    counts = {number: len(positions) for number, positions in found.positions.items()}
    live = context.catalog.segments_by_number(state.id, [*numbers, *counts], state.version)
    return [one for number, one in sorted(live.items()) if number in numbers or counts[number] == one.live_rows]


def _is_below(segment: LiveSegment, base: BasePath) -> bool:
    found = paths.parse_base_path(segment.facts.path)
    return found is not None and found[0] == base.id


__all__ = ["Move", "move"]
