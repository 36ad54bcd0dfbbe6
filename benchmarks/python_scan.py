"""A whole table into Arrow, and pyarrow reading the very same files."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks import events, lakes
from benchmarks.harness import Bench, Line
from benchmarks.merge import segment_files
from moulin.table.table import Table

TITLE = "table.scan().to_arrow() / pyarrow"
TARGET = 1.15


def run(bench: Bench) -> Iterator[Line]:
    for kind, make in (("appended", lakes.fresh_table), ("compacted", lakes.merged_table)):
        table = make(bench)
        whole = table.version
        yield _compare(bench, table, f"{kind}, no deletes", TARGET)
        bench.step(f"{kind}: deleting {events.FIVE_PERCENT}")
        table.delete_where(events.FIVE_PERCENT)
        yield _compare(bench, table, f"{kind}, 5 % deleted", None)
        table.restore(whole)


def _compare(bench: Bench, table: Table, case: str, target: float | None) -> Line:
    """Both read the same columns of the same files; the peers do not know of deleted rows."""
    files = [str(path) for path in segment_files(bench, table)]
    names = events.SCHEMA.names

    def dataset() -> pa.Table:
        return ds.dataset(files, format="parquet").to_table(columns=names)

    def read_table() -> pa.Table:
        return pa.concat_tables([pq.read_table(file, columns=names, partitioning=None) for file in files])

    peers = {"pyarrow.dataset": dataset, "pq.read_table": read_table}
    return bench.compare("python_scan", case, lambda: table.scan().to_arrow(), peers, target=target)
