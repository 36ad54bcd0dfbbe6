"""Totals by facts of segments are those of the rows, or are not known. Referee: the rows of a scan, in Python."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin import Table
from moulin.model.predicate import Predicate
from moulin.table.read.scan import plan_segments
from moulin.table.read.totals import Wanted, may_be_known, totals_of

COLUMNS = [("id", "long", False), ("region", "string"), ("k", "int"), ("x", "double"), ("name", "string")]
WANTED = [
    Wanted(),
    Wanted(least=("id",), greatest=("id", "k")),
    Wanted(least=("x",), greatest=("x",)),
    Wanted(("region",), ("k",), ("id",)),
    Wanted(("region", "k"), greatest=("x",)),
    Wanted(("k",)),
    Wanted(("later",), greatest=("later",)),
    Wanted(("name",)),
    Wanted(greatest=("name",)),
]


def _row(chance: random.Random, number: int, part: int) -> dict[str, Any]:
    values = {
        "region": chance.choice(["eu", "us", None]),
        "k": part if part % 2 else chance.randrange(4),
        "x": chance.choice([1.5, -3.0, 0.0, -0.0, *([math.nan] if part == 3 else [])]),
        "name": chance.choice(["a", "b" * 20]),
    }
    return {"id": number, **{name: None if chance.random() < 0.1 else value for name, value in values.items()}}


@pytest.fixture
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    chance = random.Random(f"totals {request.param}")
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", COLUMNS, partition_by=chance.choice([[], ["region"], ["region", "k"]]))
        for part in range(6):
            table.append([_row(chance, part * 20 + number, part) for number in range(20)])
            if part == 2:
                table.add_column("later", "long")
            if chance.random() < 0.4:
                table.delete_where(f"id in ({part * 20}, {part * 20 + chance.randrange(20)}, 119)")
        yield table


def _totals(table: Table, wanted: Wanted) -> dict[tuple[Any, ...], list[Any]] | None:
    state = table.state()
    numbers = {one.field_id for one in state.schema.fields if one.name in wanted.columns}
    catalog = table._context.catalog
    segments = plan_segments(catalog, state, Predicate.everything(state.schema), numbers)
    found = totals_of(state, segments, wanted)
    assert found is None or may_be_known(state, wanted)
    if found is None:
        return None
    rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
    return {tuple(row[: len(wanted.by)]): list(row[len(wanted.by) :]) for row in rows}


def _counted(table: Table, wanted: Wanted) -> dict[tuple[Any, ...], list[Any]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in table.scan().to_pylist():
        groups[tuple(row[name] for name in wanted.by)].append(row)
    found = {}
    for key, rows in groups.items():
        ends = [(min, name) for name in wanted.least] + [(max, name) for name in wanted.greatest]
        values = [end((r[name] for r in rows if r[name] is not None), default=None) for end, name in ends]  # type: ignore[operator]
        found[key] = [len(rows), *values]
    return found


@pytest.mark.parametrize("table", range(25), indirect=True)
def test_totals_are_those_of_the_rows_or_unknown(table: Table) -> None:
    known = 0
    for wanted in WANTED:
        found = _totals(table, wanted)
        if found is not None:
            known += 1
            assert found == _counted(table, wanted), wanted
    assert known >= 2, "rows are always counted, and columns of nulls alone are known"
