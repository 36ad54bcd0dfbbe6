"""Compacts inline segments into files: the append that finds many of them compacts them."""

# Decisions: docs/decisions/0320, docs/decisions/0322

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from uuid import UUID

from moulin.errors import MoulinError
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.table.compact.compaction import compact_segments
from moulin.table.context import Context, InlineAppends
from moulin.table.properties import effective

log = logging.getLogger("moulin.table")


def compact_if_due(context: Context, state: TableState, added: Sequence[SegmentFacts]) -> None:
    """After an append to `state`: compact when the table has as many inline segments as it may have.

    Where the last attempt of this process failed, or others were at it, the next waits for a quarter as many appends.
    Raises nothing: the append stands.
    """
    most = effective(context.config, state.properties).inline_segments
    mine = context.inline.setdefault(state.id, InlineAppends())
    mine.numbers.extend(facts.number for facts in added)
    reached = state.inline + sum(facts.inline is not None for facts in added)
    if reached < most or (mine.waits and len(mine.numbers) < most // 4):
        if len(mine.numbers) > 2 * most:  # others compact them
            del mine.numbers[:most]
        return
    numbers, mine.numbers, mine.waits = mine.numbers, [], True
    try:
        mine.waits = _compact(context, state.id, numbers, reached) < reached // 2
    except MoulinError as error:
        log.warning("Inline segments of %s could not be compacted: %s", state.full_name, error)
    except Exception:
        log.exception("Inline segments of %s wait for their compaction", state.full_name)


def _compact(context: Context, table_id: UUID, mine: Sequence[int], reached: int) -> int:
    """Compact the inline segments without another worker; returns how many."""
    state = context.catalog.table_by_id(table_id)
    found = _inline(context.catalog.segments_by_number(table_id, mine, state.version).values())
    if len(found) < reached // 2:  # others append, too, or did before this process began
        found = _inline(context.catalog.segments(table_id, state.version, with_columns=False))
    return compact_segments(context, state, found).segments_in


def _inline(segments: Iterable[LiveSegment]) -> list[LiveSegment]:
    return [segment for segment in segments if segment.facts.inline is not None]
