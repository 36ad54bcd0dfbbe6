"""Files that proved other than an engine's manifest said: their tables are not read until they are gone.

Files that nobody has read yet are not rewritten before they were: a compaction would make their lies its own.
"""

# Decisions: docs/decisions/0492, docs/decisions/0633

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from moulin.catalog.backend import CatalogBackend
from moulin.catalog.commit.publishing import BRANCH as PUBLISHED
from moulin.errors import Corrupt
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.operations import Kind
from moulin.model.tags import VERIFIED, quarantined

BELIEVED: Final = "iceberg-verify"
"""Key in the summary of a commit of which not every file was read."""


def refuse_quarantined(catalog: CatalogBackend, state: TableState) -> None:
    """Raise Corrupt when the table has a file in quarantine: what pruning knows of it is wrong, too."""
    wrong = quarantined(state.properties)
    if not wrong:
        return
    live = catalog.segments_by_number(state.id, wrong, state.version)
    for number, segment in sorted(live.items()):
        raise Corrupt(
            f"{segment.facts.path} of {state.full_name} is in quarantine: {wrong[number]}. The engine that committed "
            "it said otherwise. Delete the file from the table with an engine, or restore a version before it."
        )


def is_unread(catalog: CatalogBackend, state: TableState) -> Callable[[LiveSegment], bool]:
    """Tells segments whose files were taken at their manifests' word and not read since.

    What a publish brought counts, and in a clone what it began with: the check may not have looked there. A restore
    may have brought back files that were not live when the check looked, so all that were ever believed count again.
    """
    if VERIFIED not in state.properties:
        return lambda segment: False
    text = state.properties[VERIFIED]
    since, oldest = int(text) if text.isdecimal() else 0, 0
    commits = catalog.history(state.id)
    if any(one.version > since and str(one.kind) == Kind.RESTORE.value for one in commits):
        since, oldest = 0, min(one.version for one in commits)
    believed = {
        one.version for one in commits if one.version > since and (BELIEVED in one.summary or PUBLISHED in one.summary)
    }

    def unread(segment: LiveSegment) -> bool:
        came = segment.added_version
        return came in believed or came < oldest or since < came <= state.created_version

    return unread


def proven(catalog: CatalogBackend, state: TableState, segments: Iterable[LiveSegment]) -> list[LiveSegment]:
    """Those of the segments that may be rewritten: neither unread nor in quarantine."""
    wrong, unread = quarantined(state.properties), is_unread(catalog, state)
    return [segment for segment in segments if segment.facts.number not in wrong and not unread(segment)]


__all__ = ["BELIEVED", "is_unread", "proven", "refuse_quarantined"]
