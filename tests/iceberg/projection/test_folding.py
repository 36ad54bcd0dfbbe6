"""Columns in files of their own, as Iceberg engines see them: folded first, or left out of the schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from moulin.iceberg.projection.projection import Projection, project
from moulin.lake import Lake
from moulin.table.table import Table
from tests.iceberg.conftest import rows


def seen(made: Projection | str, snapshot: int | None = None) -> list[dict[str, Any]]:
    location = made if isinstance(made, str) else made.location
    scan = StaticTable.from_metadata(location).scan(snapshot_id=snapshot)
    return sorted(scan.to_arrow().to_pylist(), key=lambda row: int(row["id"]))


@pytest.fixture
def filled(orders: Table) -> Table:
    orders.append(rows(0, 20))
    orders.append(rows(20, 20, "us"))
    orders.delete_where("id = 3")
    return orders


def test_a_projection_of_now_folds_first_and_engines_read_the_column(lake: Lake, filled: Table) -> None:
    project(lake.context, filled.id)
    filled.add_column("twice", "double", from_sql="amount * 2")
    before = filled.version
    made = project(lake.context, filled.id)
    assert made.version > before
    assert [row["twice"] for row in seen(made)] == [row["amount"] * 2 for row in seen(made)]
    assert len(seen(made)) == 39
    assert [len(s.facts.files) for s in lake.catalog.segments(filled.id, filled.version)] == [0, 0]


def test_with_lag_the_column_is_left_out_until_a_compaction_folds_it(lake: Lake, filled: Table) -> None:
    filled.set_properties({"moulin.projection": "lag"})
    filled.add_column("twice", "double", from_sql="amount * 2")
    unfolded = filled.version
    made = project(lake.context, filled.id)
    assert made.version == unfolded, "nothing was folded"
    assert set(seen(made)[0]) == {"id", "ts", "region", "amount"}
    assert len(seen(made)) == 39
    lagging = made.snapshot_id
    filled.compact(everything=True)
    made = project(lake.context, filled.id)
    assert [row["twice"] for row in seen(made)] == [row["amount"] * 2 for row in seen(made)]
    older = seen(made, lagging)
    assert len(older) == 39
    assert all(row.get("twice") is None for row in older), "an older snapshot goes on without it"


def test_values_of_a_column_that_a_publish_dropped_keep_no_other_one_from_engines(lake: Lake, filled: Table) -> None:
    filled.add_column("twice", "double", from_sql="amount * 2")
    lake.branch("exp").table(filled.name).drop_column("twice")
    lake.publish("exp")
    filled.add_column("thrice", "double", from_sql="amount * 3")
    rows = seen(project(lake.context, filled.id))
    assert len(rows) == 39
    assert [row["thrice"] for row in rows] == [row["amount"] * 3 for row in rows]


def test_an_older_version_is_projected_without_the_column(lake: Lake, filled: Table) -> None:
    filled.add_column("twice", "double", from_sql="amount * 2")
    unfolded = filled.version
    filled.fold()
    made = project(lake.context, filled.id, unfolded)
    assert "twice" not in seen(made)[0]


@pytest.mark.parametrize("copy", [False, True], ids=["named", "copied"])
def test_an_export_is_folded_first(lake: Lake, filled: Table, tmp_path: Path, copy: bool) -> None:
    filled.add_column("twice", "double", from_sql="amount * 2")
    done = filled.export_iceberg(tmp_path / "out", copy=copy)
    assert [row["twice"] for row in seen(done.metadata_location)][5] == 12.0
