"""Spark reads what another engine committed through the REST catalog."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import moulin
from tests.iceberg.rest.served import duckdb_attached, pyiceberg_catalog, served


@pytest.mark.usefixtures("spark")
def test_spark_reads_files_of_other_engines(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake, served(lake) as address:
        lake.create_database("shop")
        duckdb = duckdb_attached(address)
        duckdb.execute("CREATE TABLE ice.shop.t (id BIGINT, name VARCHAR)")
        duckdb.execute("INSERT INTO ice.shop.t SELECT i, 'n' || i FROM range(10) r(i)")
        duckdb.execute("DELETE FROM ice.shop.t WHERE id < 4")
        duckdb.execute("ALTER TABLE ice.shop.t RENAME COLUMN name TO label")
        pyiceberg_catalog(address).load_table("shop.t").append(
            pa.table({"id": pa.array([50], pa.int64()), "label": ["py"]})
        )
        lake.table("shop.t").append([{"id": 60, "label": "ours"}])
        found = [(row.id, row.label) for row in lake.sql("SELECT id, label FROM shop.t ORDER BY id").collect()]
        assert found == [*((i, f"n{i}") for i in range(4, 10)), (50, "py"), (60, "ours")]
        duckdb.close()
