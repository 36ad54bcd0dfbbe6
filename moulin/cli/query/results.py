"""Rows for commands, from any source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Result:
    """Rows that are read lazily. A statement without rows has no columns."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
