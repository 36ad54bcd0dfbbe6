"""`spark.read.format("moulin")` in a session that knows the lake: which rows the options name.

Spark plans a Python source in a process of its own, and keeps the filters that it hands over for all later reads of the
same frame. A session that knows the lake need not ask it: it reads the table as `table.to_spark()` does.
"""

# Decisions: docs/decisions/0460

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql.types import StructType

from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.pipeline.source.options import FeedOptions, SourceTable, checked_columns


def state_of(lake: Lake, options: Mapping[str, str], columns: StructType | None) -> TableState | None:
    """The table and version that options of a reader name, if they are of this lake.

    None for other lakes, changes, replicas, the option `where` (whose language is that of `scan`) and storage with
    options of its own. Raises InvalidInput for columns that the table does not have or has in another type.
    """
    source = SourceTable.of(options)
    elsewhere = source.storage is not None or source.storage_options or not _is_same(source.lake, lake.uri)
    if elsewhere or lake.read_only or source.where is not None or FeedOptions.of(options) is not None:
        return None
    state = source.state(lake)
    if columns is not None:
        checked_columns(columns, state)
    return state


def _is_same(one: str, other: str) -> bool:
    return one == other or ("://" not in one + other and Path(one).resolve() == Path(other).resolve())
