"""Exports rows as CSV, NDJSON, Arrow or Parquet, streamed."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from moulin.model.rows.nano_datetime import to_rows
from moulin.model.rows.texts import csv_cell, json_text, whole_numbers

_ROWS: Final = 1_000


def export_csv(table: pa.Table) -> Iterator[bytes]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.schema.names)
    for part in _parts(table):
        for row in whole_numbers(to_rows(part, pairs=True)):
            writer.writerow([csv_cell(value) for value in row.values()])
        yield text.getvalue().encode(errors="surrogatepass")
        text.seek(0)
        text.truncate()
    yield text.getvalue().encode(errors="surrogatepass")


def export_ndjson(table: pa.Table) -> Iterator[bytes]:
    for part in _parts(table):
        lines = (json_text(row) for row in whole_numbers(to_rows(part, pairs=True)))
        yield "".join(f"{line}\n" for line in lines).encode(errors="surrogatepass")


def export_arrow(table: pa.Table) -> Iterator[bytes]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    yield sink.getvalue().to_pybytes()


def export_parquet(table: pa.Table) -> Iterator[bytes]:
    sink = pa.BufferOutputStream()
    pq.write_table(distinct(table), sink)
    yield sink.getvalue().to_pybytes()


def distinct(table: pa.Table) -> pa.Table:
    """The same columns, each with a name of its own."""
    names, seen = [], Counter[str]()
    taken = set(table.schema.names)
    for name in table.schema.names:
        seen[name] += 1
        made = name
        while seen[name] > 1 and made in taken:
            made = f"{name}_{seen[name]}"
            seen[name] += made in taken
        taken.add(made)
        names.append(made)
    return table.rename_columns(names)


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """The rows, few at a time: dicts of them need a name for each column."""
    named = distinct(table)
    for start in range(0, named.num_rows, _ROWS):
        yield named.slice(start, _ROWS)


FORMATS: Final[dict[str, tuple[str, Callable[[pa.Table], Iterator[bytes]]]]] = {
    "csv": ("text/csv; charset=utf-8", export_csv),
    "ndjson": ("application/x-ndjson", export_ndjson),
    "arrow": ("application/vnd.apache.arrow.file", export_arrow),
    "parquet": ("application/vnd.apache.parquet", export_parquet),
}
"""The type of each form, and what makes it."""
