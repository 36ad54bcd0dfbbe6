"""Scans and feeds as data frames of other libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa

from moulin.table.table import Table
from tests.table.conftest import rows


def test_polars_gets_a_frame(orders: Table) -> None:
    orders.append(rows(1, 3))
    scan, feed = orders.scan(), orders.changes(orders.version - 1)
    for frame in (scan.to_polars(), pl.DataFrame(scan), feed.to_polars(), pl.DataFrame(feed)):
        assert isinstance(frame, pl.DataFrame)
        assert frame["id"].to_list() == [1, 2, 3]


def test_arrow_and_duckdb_take_a_scan_as_it_is(orders: Table) -> None:
    orders.append(rows(1, 3))
    scan = orders.scan(["id"])
    assert pa.table(scan).column("id").to_pylist() == [1, 2, 3]
    assert duckdb.sql("select sum(id) from scan").fetchall() == [(6,)]


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    program = f"""
import sys
from importlib.abc import MetaPathFinder
class Missing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in ("pandas", "polars"):
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Missing())
import moulin
from moulin.errors import FailedPrecondition
with moulin.connect({str(tmp_path)!r}) as lake:
    lake.create_database('shop')
    table = lake.create_table('shop.orders', [('id', 'long')])
    for method in ("to_pandas", "to_polars"):
        try:
            getattr(table.scan(), method)()
        except FailedPrecondition as error:
            print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "to_pandas needs the extra 'pandas': pip install 'moulin[pandas]'.",
        "to_polars needs polars: pip install polars.",
    ]
