"""Nulls in columns that became required: finds these columns, and whether a file certainly has no nulls in them."""

# Decisions: docs/decisions/0290

from __future__ import annotations

from collections.abc import Iterable

from moulin.model.facts import ColumnFacts
from moulin.model.schema.values import NestedField, Schema


def newly_required(written: Schema, current: Schema) -> list[NestedField]:
    """The columns of `current` that may not be null, and that may be null in files of `written` or read as null."""
    before = {field.field_id: field.required for field in written.fields}
    return [
        field
        for field in current.fields
        if field.required and not before.get(field.field_id, field.initial_default is not None)
    ]


def first_in_doubt(written: Schema, current: Schema, facts: Iterable[ColumnFacts]) -> str | None:
    """The name of a required column of `current` in which a file of `written` has nulls, or may have them.

    Facts know of columns of simple types alone. None when there is surely no null.
    """
    nulls: dict[int, int] | None = None
    for field in newly_required(written, current):
        if nulls is None:
            nulls = {found.field_id: found.nulls for found in facts}
        if nulls.get(field.field_id, 1):
            return field.name
    return None


__all__ = ["first_in_doubt", "newly_required"]
