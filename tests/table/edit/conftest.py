"""What the tests of edits share: small tables of several segments, and their rows with row ids."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from moulin.lake import Lake
from moulin.table.table import Table

COLUMNS = [("id", "long", False), ("g", "long"), ("a", "long"), ("s", "string")]
Row = dict[str, Any]

_numbers = count()


@pytest.fixture(scope="module")
def folder_lake() -> Iterator[Lake]:
    """One lake in a folder, for tests that make many tables."""
    folder = Path(tempfile.mkdtemp(prefix="moulin-edit-"))
    lake = Lake.open(folder / "lake")
    lake.create_database("shop")
    yield lake
    lake.close()
    shutil.rmtree(folder)


def make_table(lake: Lake, parts: list[list[Row]], **options: Any) -> Table:
    """A table of the rows of `parts`, a segment or more for each, and of a segment with a deletion vector."""
    table = lake.create_table(f"shop.t{next(_numbers)}", COLUMNS, **options)
    for part in parts:
        table.append(part)
    table.append([{"id": 100, "g": 1, "a": 1, "s": "doomed"}, {"id": 101, "g": 1, "a": 1, "s": "x"}])
    table.delete_where("s = 'doomed'")
    return table


def with_ids(table: Table) -> dict[int, Row]:
    """The rows of a table by row id."""
    names = [name for name, *_ in COLUMNS]
    found = table.scan(columns=[*names, "_row_id"]).to_pylist()
    rows = {row["_row_id"]: {name: row[name] for name in names} for row in found}
    assert len(rows) == len(found)
    return rows


def replayed(table: Table, before: dict[int, Row], since: int) -> dict[int, Row]:
    """What the change feed makes of the rows before."""
    rows = dict(before)
    names = [name for name, *_ in COLUMNS]
    changes = table.changes(since).to_arrow().to_pylist()
    for line in changes:
        if line["_change_type"] in ("delete", "update_before"):
            assert rows.pop(line["_row_id"]) == {name: line[name] for name in names}
    for line in changes:
        if line["_change_type"] in ("insert", "update_after"):
            rows[line["_row_id"]] = {name: line[name] for name in names}
    return rows


def kinds(table: Table, since: int) -> list[str]:
    """The kinds of changes after a version, sorted."""
    return sorted(table.changes(since).to_arrow().column("_change_type").to_pylist())


@pytest.fixture
def many_slices() -> Iterator[None]:
    """Every segment is a slice, and slices write their own edits."""
    with patch("moulin.table.edit.slices._SLICE_BYTES", 1), patch("moulin.table.edit.slices._HELD_BYTES", 0):
        yield
