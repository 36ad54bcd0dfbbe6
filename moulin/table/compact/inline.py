"""Inline segments become files: the append that finds many of them compacts them, so that they stay few."""

# Decisions: docs/decisions/0320

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from moulin.errors import MoulinError
from moulin.model.entities import TableState
from moulin.model.facts import SegmentFacts
from moulin.table.compact.compaction import compact_segments
from moulin.table.context import Context
from moulin.table.properties import effective

log = logging.getLogger("moulin.table")


def compact_if_due(context: Context, state: TableState, added: Sequence[SegmentFacts]) -> None:
    """After an append to `state`: compact when the table has as many inline segments as it may have.

    `context.inline` holds the numbers that this process appended and did not compact. Raises nothing: the append
    stands, and a later one tries again.
    """
    most = effective(context.config, state.properties).inline_segments
    context.inline.setdefault(state.id, []).extend(facts.number for facts in added)
    reached = state.inline + len(added)
    if reached < most or (reached - most) % max(1, most // 4):  # where it failed, it is not tried every time
        return
    try:
        _compact(context, state.id, context.inline.pop(state.id, []), reached)
    except MoulinError as error:
        log.warning("Inline segments of %s wait for their compaction: %s", state.full_name, error)
    except Exception:
        log.exception("Inline segments of %s wait for their compaction", state.full_name)


def _compact(context: Context, table_id: UUID, mine: Sequence[int], reached: int) -> None:
    state = context.catalog.table_by_id(table_id)
    found = list(context.catalog.segments_by_number(mine, state.version).values())
    if len(found) < reached // 2:  # others append, too, or did before this process began
        found = context.catalog.segments(table_id, state.version, with_columns=False)
    compact_segments(context, state, [segment for segment in found if segment.facts.inline is not None])
