"""Quarantine of files that differ from an engine's manifest: their tables cannot be read until the files are removed.

Unverified files are not rewritten, because a compaction would take over wrong metadata.
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
"""Key in the summary of a commit with unverified files."""


def refuse_quarantined(catalog: CatalogBackend, state: TableState) -> None:
    """Raise Corrupt if the table has a file in quarantine: its pruning statistics are wrong too."""
    wrong = quarantined(state.properties)
    if not wrong:
        return
    live = catalog.segments_by_number(state.id, wrong, state.version)
    for number, segment in sorted(live.items()):
        raise Corrupt(
            f"{segment.facts.path} of {state.full_name} is in quarantine: {wrong[number]}. The manifest of the "
            f"engine that committed "
            "it was wrong. Delete the file from the table with an engine, or restore a version before it."
        )


def is_unread(catalog: CatalogBackend, state: TableState) -> Callable[[LiveSegment], bool]:
    """Returns a function that tells unverified segments.

    Files from a publish, and the first files of a clone, count as unverified: the check may not have read them. A
    restore may have added files that were not live at the check, so after it all files that were ever unverified count
    again.
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
    """The segments that may be rewritten: neither unverified nor in quarantine."""
    wrong, unread = quarantined(state.properties), is_unread(catalog, state)
    return [segment for segment in segments if segment.facts.number not in wrong and not unread(segment)]


__all__ = ["BELIEVED", "is_unread", "proven", "refuse_quarantined"]
