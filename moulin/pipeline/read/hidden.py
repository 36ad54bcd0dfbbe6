"""The hidden columns of a table: available by name, but not in `select *`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField

from moulin.model.facts import LiveSegment
from moulin.model.schema.arrow import (
    CREATED_VERSION,
    LAST_UPDATED_SEQUENCE,
    LAST_UPDATED_SEQUENCE_FIELD_ID,
    LAST_UPDATED_VERSION,
    ROW_ID,
    ROW_ID_FIELD_ID,
)
from moulin.pipeline.read.columns import FIELD_ID, LINEAGE, POSITION_COLUMN, SEGMENT, quoted
from moulin.table.read.hidden import SEGMENT as SHOWN_SEGMENT
from moulin.table.read.hidden import SHOWN_POSITION

NAMES = (ROW_ID, LAST_UPDATED_VERSION, SHOWN_SEGMENT, SHOWN_POSITION, CREATED_VERSION)
"""The id of a row, which it keeps when it is updated or compacted; the version that wrote it last; where it is; the
version that made it."""

_FIRST, _SEQUENCE, _VERSION, _KEY = "_moulin_first", "_moulin_written", "_moulin_version", "_moulin_key"
_BLOCK, _LOW, _HIGH, _BORN = "_moulin_block", "_moulin_low", "_moulin_high", "_moulin_born"
_BLOCK_BITS = 16


def stored_lineage() -> tuple[StructField, StructField]:
    """What a scan declares of segments that store row ids."""
    return (
        StructField(ROW_ID, LongType(), metadata={FIELD_ID: ROW_ID_FIELD_ID}),
        StructField(LAST_UPDATED_SEQUENCE, LongType(), metadata={FIELD_ID: LAST_UPDATED_SEQUENCE_FIELD_ID}),
    )


def lineage_columns(*, stored: bool) -> tuple[Column, Column]:
    """The columns LINEAGE of a scan."""
    row_id, sequence = LINEAGE
    if stored:
        return F.col(ROW_ID).alias(row_id), F.col(LAST_UPDATED_SEQUENCE).alias(sequence)
    return F.lit(None).cast("bigint").alias(row_id), F.lit(None).cast("bigint").alias(sequence)


def add_hidden(
    rows: DataFrame,
    segments: Sequence[LiveSegment],
    versions: tuple[Sequence[int], Sequence[int]],
    births: tuple[Sequence[int], Sequence[int]],
) -> DataFrame:
    """Located rows with lineage, whose last columns become the hidden ones.

    `versions` are sequence numbers, ascending, and the versions that they were committed as; `births` are row ids,
    ascending, and the versions that made the rows from each on.
    """
    own = rows.columns[: -2 - len(LINEAGE)]
    facts = pa.table(
        {
            _KEY: pa.array([s.facts.number for s in segments], pa.int64()),
            _FIRST: pa.array([s.first_row_id for s in segments], pa.int64()),
            _SEQUENCE: pa.array([s.sequence for s in segments], pa.int64()),
        }
    )
    spark = rows.sparkSession
    row_id, sequence = LINEAGE
    numbered = rows.join(F.broadcast(spark.createDataFrame(facts)), F.col(SEGMENT) == F.col(_KEY), "left").select(
        *(quoted(name) for name in rows.columns[:-2]),
        F.coalesce(F.col(row_id), F.col(_FIRST) + F.col(POSITION_COLUMN)).alias(row_id),
        F.coalesce(F.col(sequence), F.col(_SEQUENCE)).alias(sequence),
    )
    written = F.broadcast(spark.createDataFrame(_by_sequence(*versions)))
    dated = numbered.join(written, F.col(sequence) == F.col(_SEQUENCE), "left")
    shift, blocks = _by_block(*births)
    mine = F.shiftright(F.col(row_id), shift) == F.col(_BLOCK)
    within = (F.col(row_id) >= F.col(_LOW)) & (F.col(row_id) < F.col(_HIGH))
    dated = dated.join(F.broadcast(spark.createDataFrame(blocks)), mine & within, "left")
    values = (F.col(row_id), F.col(_VERSION), F.col(SEGMENT), F.col(POSITION_COLUMN), F.col(_BORN))
    hidden = dict(zip(NAMES, values, strict=True))
    return dated.select(*(quoted(name) for name in own), *(hidden[name].alias(name) for name in hidden_of(own)))


def hidden_of(columns: Sequence[str]) -> list[str]:
    """The hidden columns of a table with these columns: one of the same name stands before a hidden one."""
    own = {name.lower() for name in columns}
    return [name for name in NAMES if name not in own]


def _by_sequence(sequences: Sequence[int], versions: Sequence[int]) -> pa.Table:
    """Every sequence number with its version. Those that clean-up united are all of the version that it kept."""
    known, mapped = np.asarray(sequences, np.int64), np.asarray(versions, np.int64)
    every = np.arange(known[-1] + 1) if len(known) else np.empty(0, np.int64)
    return pa.table({_SEQUENCE: every, _VERSION: mapped[np.searchsorted(known, every)] if len(known) else every})


def _by_block(firsts: Sequence[int], versions: Sequence[int]) -> tuple[int, pa.Table]:
    """Ranges of row ids with their versions, cut into blocks that a join can look up, and the bits of a block.

    The last step has no end, and nothing is known of it.
    """
    lows, highs, made = (np.asarray(side, np.int64) for side in (firsts[:-1], firsts[1:], versions[:-1]))
    known = made != 0
    lows, highs, made = lows[known], highs[known], made[known]
    shift = max(0, int(highs[-1]).bit_length() - _BLOCK_BITS) if len(highs) else 0
    counts = ((highs - 1) >> shift) - (lows >> shift) + 1
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    columns = (np.repeat(lows >> shift, counts) + within, *(np.repeat(side, counts) for side in (lows, highs, made)))
    return shift, pa.table(dict(zip((_BLOCK, _LOW, _HIGH, _BORN), map(pa.array, columns), strict=True)))
