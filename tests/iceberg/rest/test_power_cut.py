"""Projections after a power cut, which leaves files that were not synced short or empty: they are made again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moulin.catalog.upkeep.check import check as check_catalog
from moulin.catalog.upkeep.gc import collect
from moulin.iceberg.check.checker import check
from moulin.iceberg.projection import projection
from moulin.lake import Lake
from moulin.sized_cache import SizedCache
from moulin.storage import paths
from moulin.table.table import Table
from tests.iceberg.conftest import rows
from tests.iceberg.rest.served import pyiceberg_catalog, served

KINDS = {"metadata": "*.metadata.json", "list": "snap-*", "manifest": "[!s]*.avro", "all": "*"}


def cut(tmp_path: Path, table: Table, kind: str, keep: float) -> int:
    """Shorten the files of all projections that are of this kind; returns how many there were."""
    found = list((tmp_path / "lake" / paths.metadata_prefix(table.id)).glob(KINDS[kind]))
    for file in found:
        os.truncate(file, int(file.stat().st_size * keep))
    return len(found)


def ids(address: str) -> list[int]:
    """The rows as pyiceberg reads them through the catalog."""
    found = pyiceberg_catalog(address).load_table("shop.orders").scan().to_arrow()
    return sorted(found["id"].to_pylist())


@pytest.mark.sample(6)
@pytest.mark.parametrize("keep", [0.0, 0.6], ids=["empty", "short"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_that_a_power_cut_shortened_are_made_again(
    lake: Lake, orders: Table, tmp_path: Path, kind: str, keep: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [2, 3, 4, 5, *range(7, 12)]
    orders.append(rows(0, 6))
    projection.project(lake.context, orders.id)
    orders.append(rows(6, 6, "us"))
    orders.delete_where("id in (0, 1, 6)")
    with served(lake) as address:
        assert ids(address) == expected
    assert cut(tmp_path, orders, kind, keep)
    monkeypatch.setattr(projection, "_looked", SizedCache[str, float](16))  # a new process has seen no file
    with served(lake) as address:
        assert ids(address) == expected
        orders.append(rows(12, 1))
        assert ids(address) == [*expected, 12]
        pyiceberg_catalog(address).load_table("shop.orders").append(orders.scan(where="id = 12").to_arrow())
        assert ids(address) == [*expected, 12, 12]
        collect(lake.own_catalog(), history_keep=0, byte_floor=0, orphan_grace=0)
        assert ids(address) == [*expected, 12, 12]
    assert check(projection.project(lake.context, orders.id).location) == []
    assert check_catalog(lake.own_catalog()) == []
