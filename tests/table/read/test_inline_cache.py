"""Decoded rows of inline segments are kept: scans return what they would without."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import moulin
from moulin.errors import Corrupt
from moulin.formats import messages as pb
from moulin.lake import Lake
from moulin.table.read.footers import forget_footers
from moulin.table.read.inline_cache import INLINE_ROWS

COLUMNS = [("id", "long", False), ("amount", "double"), ("note", "string")]


def rows(start: int, count: int = 3) -> list[dict[str, Any]]:
    return [{"id": n, "amount": n / 2, "note": f"n{n % 2}"} for n in range(start, start + count)]


def sorted_rows(lake: Lake, **scan: Any) -> list[dict[str, Any]]:
    return sorted(lake.table("shop.t").scan(**scan).to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = moulin.connect(tmp_path / "lake", inline_bytes=1 << 16)
    lake.create_database("shop")
    lake.create_table("shop.t", COLUMNS)
    return lake


def test_the_second_scan_decodes_nothing_again(lake: Lake) -> None:
    for n in range(5):
        lake.table("shop.t").append(rows(3 * n))
    forget_footers()
    first = sorted_rows(lake)
    hits = INLINE_ROWS.hits
    assert sorted_rows(lake) == first == rows(0, 15)
    assert INLINE_ROWS.hits == hits + 1


def test_bytes_that_changed_in_the_catalog_are_checked_again(lake: Lake, tmp_path: Path) -> None:
    for n in range(3):
        lake.table("shop.t").append(rows(3 * n))
    assert sorted_rows(lake) == rows(0, 9)
    with sqlite3.connect(tmp_path / "lake" / "catalog.sqlite") as connection:
        number, stored = connection.execute("select number, facts from segments where inline").fetchone()
        details = pb.SegmentColumns.FromString(stored)
        at = details.inline.index(b"PAR1") + 60  # among the pages
        details.inline = details.inline[:at] + bytes([details.inline[at] ^ 1]) + details.inline[at + 1 :]
        connection.execute("update segments set facts = ? where number = ?", (details.SerializeToString(), number))
    with pytest.raises(Corrupt):
        sorted_rows(lake)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["append", "delete", "widen", "compact", "scan", "filter"]), max_size=14))
def test_scans_return_what_a_list_of_rows_has(tmp_path_factory: pytest.TempPathFactory, steps: list[str]) -> None:
    model: list[dict[str, Any]] = []
    with moulin.connect(tmp_path_factory.mktemp("lake"), inline_bytes=1 << 16) as lake:
        lake.create_database("shop")
        table, start, extra = lake.create_table("shop.t", COLUMNS), 0, 0
        for step in [*steps, "scan"]:
            match step:
                case "append":
                    table.append(rows(start))
                    model += [{**row, **{f"x{n}": None for n in range(extra)}} for row in rows(start)]
                    start += 3
                case "delete":
                    table.delete_where(f"id in ({start - 1}, {start - 6})")
                    model = [row for row in model if row["id"] not in (start - 1, start - 6)]
                case "widen":
                    table.add_column(f"x{extra}", "long")
                    model = [{**row, f"x{extra}": None} for row in model]
                    extra += 1
                case "compact":
                    table.compact()
                case "scan":
                    assert sorted_rows(lake) == model
                    assert sorted_rows(lake, columns=["id"]) == [{"id": row["id"]} for row in model]
                case _:
                    wanted = [row for row in model if row["note"] == "n1"]
                    assert sorted_rows(lake, where="note = 'n1'") == wanted
