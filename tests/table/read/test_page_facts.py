"""Bounds of pages and bloom filters are written by whatever writes a segment, and its scans use them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import moulin
from moulin import Lake, Table
from tests.formats.segment.test_page_filter import decoded_rows

_ROWS = 90_000  # more than eight pages of a compacted segment
_SCHEMA = [("id", "long", False), ("name", "string"), ("n", "int")]
_PROPERTIES = {"write.parquet.bloom-filter-enabled.column.name": "true"}


def _rows(start: int) -> pa.Table:
    """Even numbers in their names, in no order."""
    numbers = np.arange(start, start + _ROWS)
    names = np.random.default_rng(start).permutation(numbers) * 2
    return pa.table({"id": numbers, "name": [f"n{name:08}" for name in names], "n": pa.array(numbers % 7, pa.int32())})


def _appended(lake: Lake, *, keyed: bool = False) -> Table:
    table = lake.create_table("shop.names", _SCHEMA, primary_key=["id"] if keyed else None, properties=_PROPERTIES)
    for start in (0, _ROWS):
        table.append(_rows(start))
    return table


def _compacted(table: Table) -> Table:
    table.compact(everything=True)
    return table


def _put(lake: Lake) -> Table:
    table = _appended(lake, keyed=True)
    table.put_batch(_rows(_ROWS // 2))
    table.flush()
    return table


def _updated(table: Table) -> Table:
    table.update(set={"n": "n + 1"}, where=f"id < {_ROWS}")
    return table


def _with_column(lake: Lake, *, fold: bool) -> Table:
    table = _appended(lake)
    table.add_column("double", "long", from_sql="n * 2")
    if fold:
        table.fold()
    return table


_MADE: dict[str, Callable[[Lake], Table]] = {
    "appended": _appended,
    "compacted": lambda lake: _compacted(_appended(lake)),
    "keyed": lambda lake: _appended(lake, keyed=True),
    "keyed, compacted": lambda lake: _compacted(_appended(lake, keyed=True)),
    "put": _put,
    "put, compacted": lambda lake: _compacted(_put(lake)),
    "updated": lambda lake: _updated(_appended(lake)),
    "keyed, updated": lambda lake: _updated(_appended(lake, keyed=True)),
    "with a column file": lambda lake: _with_column(lake, fold=False),
    "folded": lambda lake: _with_column(lake, fold=True),
}


@pytest.mark.parametrize("made", _MADE)
def test_scans_of_any_segment_use_bounds_of_pages_and_bloom_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    with moulin.connect(tmp_path / "lake", merge_background="off") as lake:
        lake.create_database("shop")
        _check(_MADE[made](lake), monkeypatch)


def _check(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table.scan().count()
    with decoded_rows(monkeypatch) as decoded:
        assert table.scan(where="name = 'n00000011'").to_arrow().num_rows == 0  # odd, and within the bounds
    assert sum(decoded) == 0
    with decoded_rows(monkeypatch) as decoded:
        assert table.scan(["n"], where="id = 77").to_arrow().num_rows == 1
    assert 0 < sum(decoded) < rows
