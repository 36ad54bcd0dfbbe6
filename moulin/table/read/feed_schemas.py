"""Checks that rows of a feed fit the current columns; rows from before a table was replaced may not."""

# Decisions: docs/decisions/0493

from __future__ import annotations

from collections.abc import Generator, Iterable

from moulin.catalog.segments.feed import FeedEntry
from moulin.errors import FailedPrecondition
from moulin.model.entities import TableState
from moulin.model.schema.evolution import is_wider
from moulin.model.schema.values import PrimitiveType, Schema


def shown_as_now(state: TableState, entries: Iterable[FeedEntry]) -> Generator[FeedEntry, None, None]:
    """The entries; FailedPrecondition at the first one with rows that do not fit the columns of `state`.

    Ordinary schema changes always fit: a type becomes wider, or narrower by a restore, and a column of another
    type gets another id.
    """
    fitting = {state.schema_id}
    for entry in entries:
        live = (one for pair in entry.segments for one in (pair.before, pair.after) if one is not None)
        for number in {one.facts.schema_id for one in live} - fitting:
            if number in state.schemas and (why := _difference(state.schemas[number], state.schema)) is not None:
                raise FailedPrecondition(
                    f"The columns of {state.full_name} were replaced: {why}. Older rows, which were added or "
                    f"removed in version {entry.version}, do not fit the new columns. Read the whole table, and its "
                    "changes since that version; or read changes only until a version before it was replaced."
                )
            fitting.add(number)
        yield entry


def _difference(old: Schema, new: Schema) -> str | None:
    known = set(old.field_ids)
    for number in sorted(known & set(new.field_ids)):
        before, now = old.find_type(number), new.find_type(number)
        simple = isinstance(before, PrimitiveType)
        if before != now and not (
            is_wider(before, now) or is_wider(now, before) if simple else type(before) is type(now)
        ):
            return f"{new.find_column_name(number)} was {before} and is now {now}"
    return None


__all__ = ["shown_as_now"]
