"""Saving a DataFrame under the name of a table, as Spark's writers mean it: `writeTo`, `saveAsTable`, `insertInto`."""

# Decisions: docs/decisions/0267

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from pyspark.sql import DataFrame

from moulin.errors import AlreadyExists, InvalidInput, NotFound, Unsupported
from moulin.lake import Lake
from moulin.pipeline.write.writer import frame_arrow_schema
from moulin.table.table import Table


class Save(StrEnum):
    """What to do with the rows, and with a table that is there already."""

    APPEND = "append"
    INSERT = "insert"  # by the order of the columns
    INSERT_OVERWRITE = "insert overwrite"
    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite partitions"
    CREATE = "create"
    REPLACE = "replace"
    CREATE_OR_REPLACE = "create or replace"
    CREATE_OR_APPEND = "create or append"
    CREATE_OR_KEEP = "create or keep"


_TRANSFORMS = {"years": "year", "months": "month", "days": "day", "hours": "hour", "bucket": "bucket"}
_CREATES = {Save.CREATE, Save.CREATE_OR_REPLACE, Save.CREATE_OR_APPEND, Save.CREATE_OR_KEEP}
_REPLACES = {Save.REPLACE, Save.CREATE_OR_REPLACE}


def save(
    lake: Lake,
    name: str,
    frame: DataFrame,
    how: Save,
    *,
    where: str | None = None,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, Any] | None = None,
) -> None:
    """Write the rows of a frame in one version, with the table if it is new.

    `where` is for OVERWRITE alone. A table that is replaced keeps its columns, partitions and properties: raises
    Unsupported when others are asked for.
    """
    try:
        table = lake.table(name)
    except NotFound:
        if how not in _CREATES:
            raise
        _create(lake, name, frame, partition_by, properties)
        return
    if how is Save.CREATE:
        raise AlreadyExists(f"Table {name} already exists: append to it, or replace it.")
    if how in _REPLACES:
        _check_same(table, name, frame, partition_by, properties)
    if how is not Save.CREATE_OR_KEEP:
        _write(table, name, frame, how, where)


def _create(
    lake: Lake, name: str, frame: DataFrame, partition_by: Sequence[str], properties: Mapping[str, Any] | None
) -> None:
    schema = frame_arrow_schema(frame.schema)
    lake.create_table(name, schema, partition_by=partition_by, properties=properties or {}, data=frame)


def _check_same(
    table: Table, name: str, frame: DataFrame, partition_by: Sequence[str], properties: Mapping[str, Any] | None
) -> None:
    if partition_by or properties or frame.columns != list(table.schema.names):
        raise Unsupported(
            f"Rows can only be replaced by rows with the same columns: run CREATE OR "
            f"REPLACE TABLE {name} ... AS SELECT from a view of the rows."
        )


def _write(table: Table, name: str, frame: DataFrame, how: Save, where: str | None) -> None:
    if how in (Save.INSERT, Save.INSERT_OVERWRITE):
        names = list(table.schema.names)
        if len(names) != len(frame.columns):
            raise InvalidInput(f"{name} has {len(names)} columns, but the rows have {len(frame.columns)}.")
        frame = frame.toDF(*names)
    if how in (Save.APPEND, Save.INSERT, Save.CREATE_OR_APPEND):
        table.append(frame)
        return
    if how is Save.OVERWRITE_PARTITIONS and table.state().spec.fields:
        table.overwrite_partitions(frame)
        return
    table.overwrite(frame, where)


def partition_field(text: str) -> str:
    """A partition field of Spark's, a column or a transform as SQL, as the lake writes it."""
    name, bracket, rest = text.replace("`", "").partition("(")
    if not bracket:
        return name
    if name.lower() not in _TRANSFORMS:
        raise InvalidInput(f"Partition by columns, years, months, days, hours or bucket, not by {text}.")
    return f"{_TRANSFORMS[name.lower()]}({rest}"


def overwritten(condition: str | None) -> str | None:
    """The rows that an overwrite with this condition replaces; None for all of them.

    The condition is as it was written, and None when it was made of columns: Spark has no text of such a one.
    """
    if condition is not None and condition.strip("() ").lower() == "true":
        return None
    if condition is None:
        raise Unsupported('Write the condition of the overwrite as text: overwrite(expr("id = 7")).')
    return condition


__all__ = ["Save", "overwritten", "partition_field", "save"]
