"""Writes the rows of a result in the requested format, to the screen or to a file.

A file is written under a temporary name first, so an existing file is always complete.
"""

# Decisions: docs/decisions/0243, docs/decisions/0264

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pyarrow as pa

from moulin.cli.documents import ReaderGone, write_list
from moulin.cli.options import rows_to_read, rows_to_show
from moulin.cli.output import errors, say, show_limited, show_rows
from moulin.cli.query.forms import BINARY, DOCUMENT
from moulin.cli.query.results import Result
from moulin.cli.query.rows import rows_of
from moulin.model.rows.texts import csv_cell, whole_numbers
from moulin.pipeline.statements.answer import COUNTS
from moulin.printable import printable

if TYPE_CHECKING:
    from moulin.cli.progress import Bar

USUAL_ROWS = 100
# What EXPLAIN returns, in DuckDB and in Spark: a drawing of several lines in the last column.
_PLANS = (("explain_key", "explain_value"), ("plan",))
_HEAD = "== "  # how a plan of Spark begins, and a text in a column of that name hardly does


def rows_wanted(kind: str, output: str | None, limit: int | None, *, usual: int = USUAL_ROWS) -> int | None:
    """How many rows of a result will be read, for the engine."""
    whole = kind != "table" or output is not None
    return rows_to_read(rows_to_show(limit, whole, usual=usual), whole)


def write(
    result: Result,
    kind: str,
    output: str | None,
    limit: int | None = None,
    *,
    total: int | None = None,
    usual: int = USUAL_ROWS,
    empty: str = "No rows.",
    advice: str = "--limit 0 shows all",
) -> None:
    """Print rows, or write them to a file. Without a limit, all rows; as a table on the screen, the first `usual` rows.

    `total` is the number of rows, if known.
    """
    if not result.schema.names:
        for _ in result.batches:  # a statement runs as it is read
            pass
        if output is None and kind == "json":
            write_list([])
        elif output is None and kind in ("table", DOCUMENT):
            show_rows([], kind == DOCUMENT, empty="Done.")
        return
    if output is None and kind == "table" and tuple(result.schema.names) == COUNTS:
        _say_counts(result)
        return
    if output is None and kind == "table" and tuple(result.schema.names) in _PLANS:
        first = next(result.batches, None)
        result = Result(result.schema, result.batches if first is None else chain([first], result.batches))
        if first is not None and first.num_rows and (first.num_columns > 1 or str(first[0][0]).startswith(_HEAD)):
            for row in rows_of(result.batches):
                say(str(row[result.schema.names[-1]]))
            return
    count = rows_to_show(limit, kind != "table" or output is not None, usual=usual)
    if output is None:
        _print(result, kind, count, total, empty, advice)
        return
    from moulin.cli.progress import progress  # here: rows on the screen need no bar

    with _replacing(Path(output).expanduser()) as file, progress(f"Writing {output}") as bar:
        counted = Result(result.schema, _counted(result.batches, bar, total if count is None else None))
        if kind in BINARY:
            _write_binary(counted, kind, count, file)
            return
        with open(file, "w", encoding="utf-8", newline="") as text, redirect_stdout(text):
            _print(counted, kind, count, None, empty, advice)


def _counted(batches: Iterable[pa.RecordBatch], bar: Bar, total: int | None) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        bar.of(rows, total, "rows")


def _say_counts(result: Result) -> None:
    """The result of a statement that changed rows, as one line."""
    ((everything, inserted, updated, deleted, version),) = (row.values() for row in rows_of(result.batches))
    rows = "1 row" if everything == 1 else f"{everything:,} rows"
    parts = f"{inserted:,} inserted, {updated:,} updated, {deleted:,} deleted"
    say(f"{rows} changed ({parts}), at version {version}.")


def _print(result: Result, kind: str, count: int | None, total: int | None, empty: str, advice: str) -> None:
    if kind == "csv":
        _write_csv(result, count, sys.stdout)
        return
    found = whole_numbers(rows_of(result.batches))
    with errors.status("Running ..."):
        first = list(islice(found, 1))
    if kind == "json":
        write_list(islice(chain(first, found), count))
        return
    show_limited(chain(first, found), kind == DOCUMENT, count, total=total, empty=empty, advice=advice, data=True)


def _write_csv(result: Result, count: int | None, file: TextIO) -> None:
    """Control characters in values are escaped only on terminals."""
    at_terminal = file.isatty()
    writer = csv.writer(file, lineterminator="\n")
    try:
        writer.writerow(_cell(name, at_terminal) for name in result.schema.names)
        for row in islice(whole_numbers(rows_of(result.batches)), count):
            writer.writerow(_cell(value, at_terminal) for value in row.values())
    except BrokenPipeError:
        raise ReaderGone from None


def _cell(value: Any, at_terminal: bool) -> str:
    text = csv_cell(value)
    return printable(text) if at_terminal else text


def _write_binary(result: Result, kind: str, count: int | None, file: Path) -> None:
    if kind == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetWriter(file, result.schema) as writer:
            for batch in _first(result.batches, count):
                writer.write_batch(batch)
        return
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, result.schema) as writer:
        for batch in _first(result.batches, count):
            writer.write_batch(batch)


def _first(batches: Iterable[pa.RecordBatch], count: int | None) -> Iterator[pa.RecordBatch]:
    left = count
    for batch in batches:
        yield batch if left is None else batch.slice(0, left)
        if left is not None:
            left -= batch.num_rows
            if left <= 0:
                return


@contextmanager
def _replacing(file: Path) -> Iterator[Path]:
    """A temporary file that replaces `file` when it is complete."""
    made = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        yield made
        os.replace(made, file)
    finally:
        made.unlink(missing_ok=True)
