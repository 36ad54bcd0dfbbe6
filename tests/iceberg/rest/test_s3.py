"""The REST catalog of a lake on PostgreSQL and S3: engines bring their own credentials."""

from __future__ import annotations

import pyarrow as pa

import moulin
from tests.conftest import S3_KEYS
from tests.iceberg.rest.served import pyiceberg_catalog, served


def test_pyiceberg_writes_to_s3(postgres_url: str, s3_url: str, s3_options: dict[str, str]) -> None:
    options = {
        "s3.endpoint": s3_options["endpoint"],
        "s3.access-key-id": S3_KEYS["access_key_id"],
        "s3.secret-access-key": S3_KEYS["secret_access_key"],
        "s3.region": S3_KEYS["region"],
    }
    rows = pa.table({"id": pa.array(range(5), pa.int64())})
    with moulin.connect(postgres_url, storage=s3_url, storage_options=s3_options) as lake, served(lake) as address:
        catalog = pyiceberg_catalog(address, **options)
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.t", rows.schema)
        table.append(rows)
        lake.table("shop.t").delete_where("id = 2")
        table.refresh()
        table.append(pa.table({"id": pa.array([9], pa.int64())}))
        found = sorted(lake.table("shop.t").scan().to_arrow()["id"].to_pylist())
        assert found == sorted(catalog.load_table("shop.t").scan().to_arrow()["id"].to_pylist()) == [0, 1, 3, 4, 9]
        data = f"tables/{lake.table('shop.t').id}/data"
        assert all("/_moulin_segment=" in info.path for info in lake.store.list(data))
