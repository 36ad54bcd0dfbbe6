"""DuckDB writes through the REST catalog, and the lake reads what it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from moulin.iceberg.check.checker import check
from moulin.iceberg.check.metadata_files import Files
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from tests.iceberg.conftest import COLUMNS, rows
from tests.iceberg.rest.served import duckdb_attached, served


@pytest.fixture
def duckdb(lake: Lake) -> Iterator[Any]:
    with served(lake) as address:
        connection = duckdb_attached(address)
        connection.execute("SET unsafe_iceberg_ignore_sort_order=true")  # they are taken as unsorted
        yield connection
        connection.close()


def _ours(lake: Lake, name: str, *columns: str) -> list[tuple[Any, ...]]:
    found = lake.table(name).scan().to_arrow().select(list(columns))
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.parametrize("version", [2, 3])
def test_duckdb_inserts_updates_deletes_merges_and_alters(lake: Lake, duckdb: Any, version: int) -> None:
    run = duckdb.execute
    run(f"CREATE TABLE ice.shop.t (id BIGINT, name VARCHAR) WITH ('format-version'='{version}')")
    run("INSERT INTO ice.shop.t SELECT i, 'n' || i FROM range(30) r(i)")
    run("DELETE FROM ice.shop.t WHERE id % 3 = 0")
    run("DELETE FROM ice.shop.t WHERE id % 5 = 0")  # a second time on the same file
    run("UPDATE ice.shop.t SET name = 'x' WHERE id < 5")
    run(
        "MERGE INTO ice.shop.t USING (SELECT 1 AS id, 'm' AS name UNION ALL SELECT 100, 'new') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.name)"
    )
    run("ALTER TABLE ice.shop.t ADD COLUMN extra INTEGER")
    run("ALTER TABLE ice.shop.t RENAME COLUMN name TO label")
    run("INSERT INTO ice.shop.t VALUES (200, 'z', 7)")
    names = {i: f"n{i}" for i in range(30) if i % 3 and i % 5} | {1: "m", 2: "x", 4: "x", 100: "new", 200: "z"}
    expected = sorted((i, name, 7 if i == 200 else None) for i, name in names.items())
    assert _ours(lake, "shop.t", "id", "label", "extra") == expected
    assert run("SELECT id, label, extra FROM ice.shop.t ORDER BY id").fetchall() == expected
    table = lake.table("shop.t")
    table.append([{"id": 300, "label": "ours", "extra": 1}])
    run("DELETE FROM ice.shop.t WHERE id >= 200")
    assert _ours(lake, "shop.t", "id") == [(i,) for i in sorted(names) if i < 200]
    assert check(project(lake.context, table.id).location, Files(lake.store)) == []
    table.compact(everything=True)
    assert run("SELECT count(*) FROM ice.shop.t").fetchall() == [(len(names) - 1,)]


def test_nothing_of_the_engine_is_left(lake: Lake, duckdb: Any) -> None:
    duckdb.execute("CREATE TABLE ice.shop.t AS SELECT i AS id FROM range(10) r(i)")
    duckdb.execute("DELETE FROM ice.shop.t WHERE id = 3")
    data = f"tables/{lake.table('shop.t').id}/data"
    assert all("/_moulin_segment=" in info.path for info in lake.store.list(data))
    assert _ours(lake, "shop.t", "id") == [(i,) for i in range(10) if i != 3]


def test_a_transaction_over_two_partitioned_tables_is_one_version(lake: Lake, duckdb: Any) -> None:
    run = duckdb.execute
    run("CREATE TABLE ice.shop.p (id BIGINT, region VARCHAR, d DATE) PARTITIONED BY (region, bucket(4, id), day(d))")
    run("CREATE TABLE ice.shop.q (id BIGINT)")
    before = lake.version
    run("BEGIN")
    run("INSERT INTO ice.shop.p SELECT i, nullif('r' || (i % 3), 'r2'), DATE '2024-01-01' + i::INT FROM range(12) r(i)")
    run("INSERT INTO ice.shop.q VALUES (1)")
    run("COMMIT")
    assert lake.version == before + 1
    table = lake.table("shop.p")
    assert table.scan(where="region = 'r1'").to_arrow().num_rows == 4
    assert table.scan(where="region IS NULL").to_arrow().num_rows == 4
    assert table.scan(where="d = DATE '2024-01-03'").to_arrow()["id"].to_pylist() == [2]
    assert table.scan(where="id = 7").to_arrow().num_rows == 1
    assert _ours(lake, "shop.q", "id") == [(1,)]


def test_duckdb_reads_an_older_version(lake: Lake, duckdb: Any) -> None:
    run = duckdb.execute
    run("CREATE TABLE ice.shop.t (id BIGINT)")
    run("INSERT INTO ice.shop.t VALUES (1)")
    first = run("SELECT snapshot_id FROM iceberg_snapshots(ice.shop.t)").fetchall()[-1][0]
    run("INSERT INTO ice.shop.t VALUES (2)")
    assert run(f"SELECT id FROM ice.shop.t AT (VERSION => {first})").fetchall() == [(1,)]
    assert run("SELECT count(*) FROM ice.shop.t").fetchall() == [(2,)]


def test_duckdb_writes_to_a_table_that_the_lake_made(lake: Lake, duckdb: Any) -> None:
    """With event time, partitions and deletion vectors of our own."""
    orders = lake.create_table("shop.orders", COLUMNS, partition_by=["region"], event_time="ts")
    orders.append(rows(0, 10))
    orders.delete_where("id = 1")
    duckdb.execute("INSERT INTO ice.shop.orders VALUES (50, '2024-05-01 00:00:00+00', 'us', 1.0)")
    duckdb.execute("DELETE FROM ice.shop.orders WHERE id IN (2, 50)")
    assert _ours(lake, "shop.orders", "id") == [(i,) for i in range(10) if i not in (1, 2)]
    duckdb.execute("INSERT INTO ice.shop.orders VALUES (60, '2024-05-01 00:00:00+00', NULL, 1.0)")
    recent = orders.scan(where="ts >= TIMESTAMP '2024-04-01 00:00:00'").to_arrow()
    assert recent["id"].to_pylist() == [60]


def test_a_table_that_duckdb_dropped_can_be_resurrected(lake: Lake, duckdb: Any) -> None:
    duckdb.execute("CREATE TABLE ice.shop.t AS SELECT 1 AS id")
    duckdb.execute("DROP TABLE ice.shop.t")
    assert lake.tables("shop") == []
