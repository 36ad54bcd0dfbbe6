"""Stream rows from files and from standard input."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from moulin.errors import InvalidInput, NotFound
from moulin.formats.row_file import RowFormat, checked_format, format_of, read_rows
from moulin.model.schema.values import Schema


def check_files(names: Sequence[str]) -> None:
    for name in names:
        if name != "-" and Path(name).is_dir():
            raise InvalidInput(f"{name} is a folder: give its files, or load it with moulin backfill.")
        if name != "-" and not Path(name).exists():
            raise NotFound(f"File {name} does not exist.")


def read_files(
    names: Sequence[str], given: str | None, schema: Schema, done: Callable[[int, float | None], None]
) -> Iterator[pa.RecordBatch]:
    """The rows of all files, batch by batch.

    `done` is called with the rows so far and their share of all bytes, between 0 and 1, or None if standard
    input is among the files.
    """
    sizes = [None if name == "-" else Path(name).stat().st_size for name in names]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    rows = before = 0
    for name, size in zip(names, sizes, strict=True):
        kind = _format(name, given)
        source = _Source(name, kind)
        for batch in read_rows("standard input" if name == "-" else name, kind, schema, source.open):
            yield batch
            rows += batch.num_rows
            source.rows += batch.num_rows
            done(rows, (before + source.position(size or 0)) / total if total else None)
        before += size or 0


def _format(name: str, given: str | None) -> RowFormat:
    if given is not None:
        return checked_format(given)
    found = "ndjson" if name == "-" else format_of(name)
    if found is None:
        raise InvalidInput(
            f"The format of {name} cannot be told from its extension; add --format parquet, csv or ndjson."
        )
    return found


class _Source:
    """A file, or standard input, with the read position."""

    def __init__(self, name: str, kind: RowFormat) -> None:
        self._name, self._kind = name, kind
        self._file: Any = None
        self.rows = 0

    def open(self) -> Any:
        if self._name != "-":
            self._file = open(self._name, "rb")  # noqa: SIM115 - the reader closes it
        elif self._kind == "parquet":  # read from its end
            self._file = io.BytesIO(sys.stdin.buffer.read())
        else:
            self._file = sys.stdin.buffer
        return self._file

    def position(self, size: int) -> int:
        """The approximate number of bytes read. For Parquet, which is not read in order, it is computed from the
        rows.
        """
        if self._kind == "parquet":
            rows = 0 if self._name == "-" else pq.read_metadata(self._name).num_rows
            return size * self.rows // rows if rows else size
        return size if self._file.closed else min(size, self._file.tell())
