"""Rows as commands get them, whatever they come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Result:
    """Rows that are read while they are asked for. A statement without rows has no columns."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
