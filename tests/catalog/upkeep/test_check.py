"""Damage of every kind of file, and of the catalog's own rows, is found and named."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.upkeep.check import check
from moulin.errors import Corrupt
from moulin.lake import Lake
from moulin.table.table import Table
from tests.catalog.conftest import files


@pytest.fixture
def table(lake: Lake) -> Table:
    table = lake.create_table("shop.t", [("id", "long", False), ("name", "string")])
    for n in range(3):
        table.append([{"id": n * 10 + k, "name": f"row {k}"} for k in range(10)])
    table.delete_where("id = 5")
    table.compact(everything=True)
    table.delete_where("id = 6")
    return table


def test_a_healthy_lake_has_no_findings(lake: Lake, table: Table) -> None:
    seen: list[tuple[int, int]] = []
    assert check(lake.catalog, progress=lambda done, total: seen.append((done, total))) == []
    assert seen[-1][0] == seen[-1][1] > 5


def test_a_view_of_tables_that_its_branch_has_not_opened_is_no_finding(lake: Lake, table: Table) -> None:
    database = table.name.partition(".")[0]
    lake.create_table(f"{database}.other", [("id", "long")])
    lake.create_view(f"{database}.both", [table.name, f"{database}.other"])
    lake.branch("exp").table(f"{database}.other").append([{"id": 1}])
    assert check(lake.own_catalog()) == []


@pytest.mark.parametrize(
    ("pattern", "place"), [("*.parquet", 0.3), ("*.puffin", 0.1), ("*.journal", 0.3), ("*.delta", 0.5)]
)
def test_a_flipped_bit_is_found(lake: Lake, table: Table, tmp_path: Path, pattern: str, place: float) -> None:
    for file in files(tmp_path / "lake", pattern):
        whole = file.read_bytes()
        damaged = bytearray(whole)
        damaged[int(len(whole) * place)] ^= 4
        file.write_bytes(damaged)
        findings = check(lake.catalog)
        assert [f.where for f in findings if f.where.endswith(file.name)], file
        file.write_bytes(whole)
    assert check(lake.catalog) == []


@pytest.mark.parametrize("pattern", ["*.parquet", "*.puffin"])
def test_a_lost_or_cut_file_is_found(lake: Lake, table: Table, tmp_path: Path, pattern: str) -> None:
    file = files(tmp_path / "lake", pattern)[0]
    file.write_bytes(file.read_bytes()[:-3])
    assert any(f.where.endswith(file.name) for f in check(lake.catalog))
    file.unlink()
    assert any(f.where.endswith(file.name) for f in check(lake.catalog, data=False))


def test_reading_a_damaged_segment_is_an_error_and_never_wrong_rows(lake: Lake, table: Table, tmp_path: Path) -> None:
    """A flipped bit anywhere in the file: the read fails and names the file, or the bit did not matter."""
    segment = table.scan().plan().segments[0]
    file = tmp_path / "lake" / segment.facts.path
    whole, expected = file.read_bytes(), table.scan().to_arrow()
    refused = 0
    for place in range(0, len(whole), 37):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        try:
            found, message = table.scan().to_arrow(), file.name
        except Corrupt as error:
            found, message = expected, error.message
            refused += 1
        assert found == expected, f"a flipped bit at {place} changed rows"
        assert file.name in message
    assert refused > len(whole) // 37 // 2


def test_reading_with_a_damaged_deletion_vector_is_an_error(lake: Lake, table: Table, tmp_path: Path) -> None:
    vector = table.scan().plan().segments[0].vector
    assert vector is not None
    file = tmp_path / "lake" / vector.path
    damaged = bytearray(file.read_bytes())
    damaged[vector.offset + 10] ^= 1
    file.write_bytes(damaged)
    lake.context.vectors.__init__()  # type: ignore[misc]  # forget what was read before
    with pytest.raises(Corrupt, match="deletion vector"):
        table.scan().to_arrow()


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (s.tables.update().values(rows=7), "a table's sums are those of its live segments"),
        (s.segment_spans.update().values(first_row_id=0), "row-id ranges do not overlap"),
        (s.segment_spans.update().values(vector_id=999), "a span's vector is known"),
        (s.segment_spans.update().values(removed_version=s.OPEN), "a segment is live once"),
        (s.deletion_vectors.update().values(cardinality=10_000), "a vector marks no more rows than there are"),
    ],
)
def test_a_broken_invariant_is_named(lake: Lake, table: Table, damage: sa.Update, rule: str) -> None:
    with lake.catalog.pool.unordered() as connection:
        connection.execute(damage)
    assert rule in {finding.rule for finding in check(lake.catalog, data=False)}
