"""Rows from files and from standard input, streamed."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from moulin.errors import InvalidInput, NotFound
from moulin.formats.row_file import RowFormat, checked_format, format_of, read_rows
from moulin.model.schema.values import Schema


def check_files(names: Sequence[str]) -> None:
    for name in names:
        if name != "-" and Path(name).is_dir():
            raise InvalidInput(f"{name} is a folder: name its files, or load it with moulin backfill.")
        if name != "-" and not Path(name).exists():
            raise NotFound(f"There is no file {name}.")


def read_files(
    names: Sequence[str], given: str | None, schema: Schema, done: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    """The rows of all files, batch by batch; `done` is told how many rows came so far."""
    rows = 0
    for name in names:
        kind = _format(name, given)
        shown = "standard input" if name == "-" else name
        for batch in read_rows(shown, kind, schema, _opener(name, kind)):
            yield batch
            rows += batch.num_rows
            done(rows)


def _format(name: str, given: str | None) -> RowFormat:
    if given is not None:
        return checked_format(given)
    found = "ndjson" if name == "-" else format_of(name)
    if found is None:
        raise InvalidInput(f"The ending of {name} does not tell its format; add --format parquet, csv or ndjson.")
    return found


def _opener(name: str, kind: RowFormat) -> Callable[[], Any]:
    if name != "-":
        return lambda: open(name, "rb")
    if kind == "parquet":  # read from its end
        return lambda: io.BytesIO(sys.stdin.buffer.read())
    return lambda: sys.stdin.buffer
