"""What a statement answers: a few rows of plain values, or a DataFrame."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

from moulin.table.write.writes import Outcome

Answer: TypeAlias = pa.Table
"""The rows that a statement returns; none for statements that have nothing to tell."""

COUNTS = ("num_affected_rows", "num_inserted_rows", "num_updated_rows", "num_deleted_rows", "version")


def counts(outcome: Outcome) -> Answer:
    """How many rows a statement changed, and the version that has the change. The names are those of Delta Lake."""
    inserted, updated, deleted = outcome.rows_added, outcome.rows_updated, outcome.rows_deleted
    values = (inserted + updated + deleted, inserted, updated, deleted, outcome.version)
    return pa.table({name: pa.array([value], pa.int64()) for name, value in zip(COUNTS, values, strict=True)})


def nothing() -> Answer:
    """No rows and no columns."""
    return pa.table({})
