"""Files that proved other than an engine's manifest said: their tables are not read until they are gone."""

# Decisions: docs/decisions/0492

from __future__ import annotations

from moulin.catalog.backend import CatalogBackend
from moulin.errors import Corrupt
from moulin.model.entities import TableState
from moulin.model.tags import quarantined


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


__all__ = ["refuse_quarantined"]
