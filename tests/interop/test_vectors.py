"""Many deletion vectors in one Puffin file: engines apply each to its own data file, in whatever order they came."""

from __future__ import annotations

import math
import random
from pathlib import Path

from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.table.table import Table
from tests.iceberg.conftest import lake as lake  # a fixture
from tests.interop.engines import ENGINES

COLUMNS = [("id", "long", False), ("x", "long"), ("f", "double")]


def _same(lake: Lake, table: Table) -> None:
    location = project(lake.context, table.id).location
    _same_at(location, table)


def _same_at(location: str, table: Table) -> None:
    expected = sorted(table.scan().to_arrow()["id"].to_pylist())
    for engine in ("duckdb", "pyiceberg"):
        assert sorted(ENGINES[engine](location)["id"].to_pylist()) == expected, engine


def test_vectors_written_in_another_order_than_their_segments(lake: Lake) -> None:
    """Segments that statistics cannot rule out are read last."""
    table = lake.create_table("shop.t", COLUMNS, partition_by=["f"])
    table.append([{"id": n, "x": 0, "f": [math.nan, 8.0, 7.0][n % 3]} for n in range(12)])
    table.delete_where("id in (0, 1, 4, 2)")
    _same(lake, table)


def test_random_deletes(lake: Lake) -> None:
    for seed in (1, 3):
        chance, number = random.Random(seed), 0
        table = lake.create_table(f"shop.t{seed}", COLUMNS, partition_by=["x"])
        for _ in range(8):
            table.append([{"id": number + n, "x": chance.randrange(3), "f": 1.0} for n in range(20)])
            number += 20
            gone = ", ".join(str(chance.randrange(number)) for _ in range(12))
            table.delete_where(f"id in ({gone})")
            _same(lake, table)


def test_vectors_of_several_partitionings_in_one_file(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("shop.t", COLUMNS)
    first, second = list[str](), ["bucket(2, id)"]
    for start in range(0, 80, 10):  # the partitionings take turns, so that the numbers of their segments do
        table.set_partitioning(first if start % 20 else second)
        table.append([{"id": start + n, "x": 0, "f": 1.0} for n in range(10)])
    for step in (7, 5, 3):  # each time other positions, and manifests that lose some of their entries
        table.delete_where(f"id in ({', '.join(str(n) for n in range(step, 80, step))})")
        _same(lake, table)
        _same_at(table.export_iceberg(str(tmp_path / f"copy-{step}"), copy=True).location, table)
    table.delete_where("id > 20 and id < 34")
    _same(lake, table)
