"""The conflict table: what happens when two operations on a table meet.

Two operations *meet* when the one that commits now was prepared before the other committed and both touch the same
thing: the same segment, property, column, index or partitioning. Operations that do not meet always commute. What
happens when they do is data: `verdict(committing, committed)`.
"""

# Decisions: docs/decisions/0005

from __future__ import annotations

from enum import StrEnum

from moulin.model.operations import Kind


class Verdict(StrEnum):
    """What becomes of the later of two operations that meet."""

    COMMUTES = "commutes"  # both stand as they are
    REBASE = "rebase"  # the commit adjusts the later one (positions carried over, vectors united) and goes on
    RETRY = "retry"  # the later one is computed again from the new state
    CONFLICT = "conflict"  # the later one fails


_C, _B, _R, _X = Verdict.COMMUTES, Verdict.REBASE, Verdict.RETRY, Verdict.CONFLICT

# Row: what commits now. Column: what committed since it was prepared. Columns in the order of Kind.
_TABLE: dict[Kind, tuple[Verdict, ...]] = {
    #             append del ups compact trim over rest alter props part c-index u-index d-index sort fill erase
    Kind.APPEND: (_C, _C, _C, _C, _C, _C, _C, _C, _C, _C, _C, _C, _C, _C, _C, _C),
    Kind.DELETE: (_C, _B, _B, _B, _R, _R, _R, _C, _C, _C, _C, _C, _C, _C, _C, _B),
    Kind.UPSERT: (_B, _B, _B, _B, _R, _R, _R, _C, _C, _C, _C, _C, _C, _C, _C, _B),
    Kind.COMPACT: (_C, _B, _B, _X, _X, _X, _X, _C, _C, _C, _C, _C, _C, _C, _C, _X),
    Kind.TRIM: (_C, _B, _B, _R, _R, _R, _R, _C, _C, _C, _C, _C, _C, _C, _C, _B),
    Kind.OVERWRITE: (_C, _R, _R, _R, _R, _R, _R, _C, _C, _C, _C, _C, _C, _C, _C, _R),
    Kind.RESTORE: (_C, _C, _C, _C, _C, _C, _C, _C, _C, _C, _C, _C, _C, _C, _C, _C),
    Kind.ALTER_SCHEMA: (_C, _C, _C, _C, _C, _C, _X, _X, _C, _X, _C, _C, _C, _X, _C, _C),
    Kind.SET_PROPERTIES: (_C, _C, _C, _C, _C, _C, _C, _C, _X, _C, _C, _C, _C, _C, _C, _C),
    Kind.SET_PARTITIONING: (_C, _C, _C, _C, _C, _C, _X, _X, _C, _X, _C, _C, _C, _C, _C, _C),
    Kind.CREATE_INDEX: (_C, _C, _C, _C, _C, _C, _X, _X, _C, _C, _X, _C, _C, _C, _C, _X),
    Kind.UPDATE_INDEX: (_C, _C, _C, _C, _C, _C, _X, _X, _C, _C, _C, _C, _X, _C, _C, _X),
    Kind.DROP_INDEX: (_C, _C, _C, _C, _C, _C, _X, _X, _C, _C, _C, _C, _X, _C, _C, _C),
    Kind.SET_SORT_ORDER: (_C, _C, _C, _C, _C, _C, _X, _X, _C, _C, _C, _C, _C, _X, _C, _C),
    Kind.FILL: (_C, _C, _C, _R, _R, _R, _R, _C, _C, _C, _C, _C, _C, _C, _R, _R),
    Kind.ERASE: (_R, _R, _R, _R, _R, _R, _R, _R, _C, _C, _R, _R, _R, _C, _R, _R),
}
_COLUMN = {kind: index for index, kind in enumerate(Kind)}


def verdict(committing: Kind, committed: Kind) -> Verdict:
    """What becomes of `committing`, prepared before `committed`, when the two meet."""
    return _TABLE[committing][_COLUMN[committed]]


_STRENGTH = {Verdict.COMMUTES: 0, Verdict.REBASE: 1, Verdict.RETRY: 2, Verdict.CONFLICT: 3}


def strongest(verdicts: list[Verdict]) -> Verdict:
    """The verdict that decides when several commits lie between."""
    return max(verdicts, key=_STRENGTH.__getitem__, default=Verdict.COMMUTES)
