"""Files whose footers are read together become the same segments as files that are read one by one."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moulin.errors import Corrupt
from moulin.formats.segment.alike import AlikeFooters
from moulin.lake import Lake
from moulin.model.facts import SegmentFacts
from moulin.table.adopt import footers, kernel
from tests.table.conftest import BACKENDS

FOLDER = pytest.mark.parametrize("open_lake", BACKENDS[:1], indirect=True)
NOBODY = UUID(int=0)
COLUMNS = [("id", "long"), ("ts", "timestamptz"), ("name", "string"), ("amount", "double"), ("part", "long")]


def write(folder: Path, files: int, seed: int = 0) -> None:
    """Files of several writers, in folders that name a value; some have nulls, NaN, several row groups or no rows."""
    chosen = np.random.default_rng(seed)
    for number in range(files):
        rows = int(chosen.choice([0, 1, 5, 40], p=[0.05, 0.1, 0.15, 0.7]))
        names = [f"name {n}" for n in chosen.integers(0, 10**6, rows)]
        amounts = np.where(chosen.random(rows) < (0.3 if number % 9 == 0 else 0), np.nan, chosen.normal(size=rows))
        table = pa.table(
            {
                "id": pa.array(number * 1000 + np.arange(rows), pa.int64()),
                "ts": pa.array(chosen.integers(0, 2**48, rows), pa.timestamp("us", "UTC")),
                "name": pa.array([None if number % 7 == 0 and n[-1] == "1" else n for n in names], pa.string()),
                "amount": pa.array(amounts, pa.float64()),
            }
        )
        place = folder / f"part={number % 3}"
        place.mkdir(parents=True, exist_ok=True)
        options: dict[str, Any] = [
            {},
            {"compression": "zstd", "write_page_index": True},
            {"use_dictionary": False, "store_schema": False},
            {"row_group_size": 7},
        ][min(number % 11, 3) if number % 2 else 0]
        pq.write_table(table, place / f"{number}.parquet", **options)


def adopted(lake: Lake, name: str, folder: Path) -> list[SegmentFacts]:
    table = lake.create_table(name, COLUMNS, event_time="ts", partition_by=["part"])
    table.adopt(folder)
    found = table._context.catalog.segments(table.id, table.version)
    facts = sorted((one.facts for one in found), key=lambda one: one.path)
    return [replace(f, number=0, adopted=replace(f.adopted, owner=NOBODY) if f.adopted else None) for f in facts]


@FOLDER
@pytest.mark.parametrize("seed", range(3))
def test_files_read_together_become_the_segments_of_files_read_alone(lake: Lake, tmp_path: Path, seed: int) -> None:
    write(tmp_path / "theirs", 120, seed)
    together = adopted(lake, "shop.together", tmp_path / "theirs")
    with mock.patch.object(footers, "_MOST_ALIKE", 0):
        alone = adopted(lake, "shop.alone", tmp_path / "theirs")
    assert together == alone
    expected = sum(pq.read_metadata(path).num_rows for path in (tmp_path / "theirs").rglob("*.parquet"))
    assert lake.table("shop.together").count() == lake.table("shop.alone").count() == expected


@FOLDER
def test_most_files_of_one_writer_are_read_together(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "theirs" / "part=1"
    folder.mkdir(parents=True)
    chosen = np.random.default_rng(1)
    for number in range(60):
        rows = {
            "id": np.arange(50),
            "amount": chosen.normal(size=50),
            "name": [f"n{n}" for n in chosen.permutation(50)],
        }
        pq.write_table(pa.table(rows), folder / f"{number}.parquet")
    read: list[int] = []
    whole = AlikeFooters.read

    def counted(self: AlikeFooters, some: list[bytes]) -> Any:
        found = whole(self, some)
        read.append(sum(one is not None for one in found))
        return found

    table = lake.create_table(
        "shop.events", [("id", "long"), ("amount", "double"), ("name", "string"), ("part", "int")]
    )
    with mock.patch.object(AlikeFooters, "read", counted):
        table.adopt(tmp_path / "theirs")
    assert sum(read) >= 58
    assert table.count() == 60 * 50


@FOLDER
def test_a_damaged_file_among_many_is_named(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "theirs", 80)
    broken = sorted((tmp_path / "theirs").rglob("*.parquet"))[50]
    data = bytearray(broken.read_bytes())
    data[-60] ^= 0xFF  # near the end of the footer
    data[-8:-4] = (10**6).to_bytes(4, "little")
    broken.write_bytes(bytes(data))
    table = lake.create_table("shop.events", COLUMNS)
    with pytest.raises(Corrupt, match=broken.name):
        table.adopt(tmp_path / "theirs")
    assert table.count() == 0
    assert gc.isenabled()


@FOLDER
def test_footers_are_held_a_few_at_a_time(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "theirs", 90)
    with mock.patch.object(kernel, "_FIRST", 4), mock.patch.object(kernel, "_HELD_BYTES", 1 << 10):
        few = adopted(lake, "shop.few", tmp_path / "theirs")
    many = adopted(lake, "shop.many", tmp_path / "theirs")
    assert few == many
