"""Field ids and schema ids of a table on a branch: from a separate range, so that they differ from main's.

When both sides add a column, each writes files that hold the values under its id. With other ids on the two sides, a
publish brings both columns together and writes no file again.
"""

# Decisions: docs/decisions/0621

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from moulin.model.schema.schema import MAX_FIELD_ID

RANGE: Final = 1024  # ids; a branch that adds more may meet the range of another, and then conflicts with it
_RANGES: Final = 1024  # to choose from, beyond the last range in use


def last_column_id_on_branch(table_id: UUID, last_column_id: int) -> int:
    """What `last_column_id` of a table becomes on a branch, where it has the id `table_id`: the same for every caller.

    It stays where it is once the ids are used up; then columns that both sides add have the same ids, and conflict.
    """
    step = 1 + table_id.int % _RANGES
    first = (last_column_id // RANGE + step) * RANGE
    return first if first + RANGE <= MAX_FIELD_ID else last_column_id


def next_schema_id(schema_ids: Iterable[int], last_column_id: int) -> int:
    """The id of the next schema of a table: on a branch it lies in the range of the column ids, too."""
    return max(max(schema_ids) + 1, last_column_id - last_column_id % RANGE)


__all__ = ["last_column_id_on_branch", "next_schema_id"]
