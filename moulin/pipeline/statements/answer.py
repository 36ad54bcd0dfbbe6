"""The result of a statement: a few rows of plain values, or a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from moulin.table.write.writes import Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Answer: TypeAlias = "pa.Table | DataFrame"
"""The rows that a statement returns; none for statements that have nothing to tell."""

COUNTS = ("num_affected_rows", "num_inserted_rows", "num_updated_rows", "num_deleted_rows", "version")


def counts(outcome: Outcome) -> Answer:
    """How many rows a statement changed, and the version that has the change. The names are those of Delta Lake."""
    inserted, updated, deleted = outcome.rows_added, outcome.rows_updated, outcome.rows_deleted
    values = (inserted + updated + deleted, inserted, updated, deleted, outcome.version)
    return pa.table({name: pa.array([value], pa.int64()) for name, value in zip(COUNTS, values, strict=True)})


def is_counts(answer: pa.Table) -> bool:
    """Whether an answer is one of `counts`."""
    return tuple(answer.column_names) == COUNTS


def rows(columns: Mapping[str, pa.DataType], values: Iterable[Sequence[Any]]) -> Answer:
    """These rows, with columns of these names and types."""
    arrays = list(zip(*values, strict=True)) or [()] * len(columns)
    schema = pa.schema(columns)
    return pa.table([pa.array(one, field.type) for one, field in zip(arrays, schema, strict=True)], schema=schema)


def nothing() -> Answer:
    """No rows and no columns."""
    return pa.table({})
