"""Rows from files and from standard input: Parquet, CSV and newline-delimited JSON, streamed."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from moulin.errors import InvalidInput, NotFound

FORMATS = {".parquet": "parquet", ".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson"}
_PLAIN = (pa.types.is_string, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_date)


def format_of(name: str, given: str | None) -> str:
    """The format of a file, from its ending unless given."""
    if given is not None:
        if given not in FORMATS.values():
            raise InvalidInput(f"Unknown format {given!r}; known are parquet, csv and ndjson.")
        return given
    if name == "-":
        return "ndjson"
    endings = [suffix for suffix in Path(name).suffixes if suffix in FORMATS]
    if not endings:
        raise InvalidInput(f"The ending of {name} does not tell its format; add --format parquet, csv or ndjson.")
    return FORMATS[endings[-1]]


def check_files(names: Sequence[str]) -> None:
    for name in names:
        if name != "-" and not Path(name).is_file():
            raise NotFound(f"There is no file {name}.")


def read_files(
    names: Sequence[str], given: str | None, schema: pa.Schema, done: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    """The rows of all files, batch by batch; `done` is told how many rows came so far."""
    rows = 0
    for name in names:
        kind = format_of(name, given)
        try:
            for batch in _READERS[kind](name, schema):
                yield batch
                rows += batch.num_rows
                done(rows)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            shown = "standard input" if name == "-" else name
            raise InvalidInput(f"{shown} cannot be read as {kind}: {str(error).splitlines()[0]}") from error


def _parquet(name: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    source: Any = io.BytesIO(sys.stdin.buffer.read()) if name == "-" else name
    yield from pq.ParquetFile(source).iter_batches()


def _csv(name: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    types = {f.name: f.type if any(is_kind(f.type) for is_kind in _PLAIN) else pa.string() for f in schema}
    options = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    yield from pa.csv.open_csv(_stream(name), convert_options=options)


def _ndjson(name: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    known = pa.schema([f for f in schema if any(is_kind(f.type) for is_kind in _PLAIN[:4])])
    options = pa.json.ParseOptions(explicit_schema=known)
    yield from pa.json.open_json(_stream(name), parse_options=options)


def _stream(name: str) -> str | BinaryIO:
    return sys.stdin.buffer if name == "-" else name


_READERS: dict[str, Callable[[str, pa.Schema], Iterator[pa.RecordBatch]]] = {
    "parquet": _parquet,
    "csv": _csv,
    "ndjson": _ndjson,
}
