"""Results of DuckDB queries as Arrow batches, and its errors in one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection

from moulin.errors import InvalidInput

_OF_MOULIN = re.compile(r"exception occurred while executing the UDF: \w+: (?P<said>[^\n]*)")
_NOT_A_TABLE = re.compile(r"Catalog Error: .* is not an? table|Can only \w+( from| into)? base table")
_MARKED = re.compile(r"^(?P<head>LINE (?P<line>\d+): )(?P<shown>.*)\n(?P<mark> *)\^", re.MULTILINE)
_ROWS = 100_000


def reader(connection: DuckDBPyConnection, text: str, rows: int = _ROWS) -> pa.RecordBatchReader:
    """The rows of a statement, `rows` in a batch, read while it runs; one without rows has a stream without columns.

    Raises InvalidInput when DuckDB refuses the statement.
    """
    with one_sentence():
        found = connection.execute(text)
        if found.description is None:
            return pa.RecordBatchReader.from_batches(pa.schema([]), [])
        read = getattr(found, "to_arrow_reader", None) or found.fetch_record_batch  # which newer versions deprecate
        return read(rows)


@contextmanager
def one_sentence() -> Iterator[None]:
    """What DuckDB says about a statement, as one sentence. KeyboardInterrupt when somebody interrupted it."""
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if "INTERRUPT" in str(error):  # as Arrow passes it on
            raise KeyboardInterrupt from None
        line, column = _place(str(error))
        raise InvalidInput(_sentence(str(error)), line=line, column=column) from None


def _place(said: str) -> tuple[int | None, int | None]:
    """The line and the column that DuckDB's mark below the line is at; no column where it shows a part of the line."""
    found = _MARKED.search(said)
    if found is None:
        return None, None
    cut = found["shown"].startswith("...")
    return int(found["line"]), None if cut else max(1, len(found["mark"]) - len(found["head"]) + 1)


def _sentence(said: str) -> str:
    of_moulin = _OF_MOULIN.search(said)
    if of_moulin is not None:
        return of_moulin["said"]
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["it gives no reason"]
    advice = " It changes no table of the lake: use Spark or Python." if _NOT_A_TABLE.search(lines[0]) else ""
    return f"DuckDB refuses the statement: {lines[0].rstrip('.!')}.{advice}"


def batches(stream: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of a stream; errors are one sentence."""
    with one_sentence():
        yield from stream
