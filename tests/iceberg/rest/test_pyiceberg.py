"""pyiceberg writes through the REST catalog, and the lake reads what it wrote."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import (
    BadRequestError,
    NamespaceNotEmptyError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, StructType, TimestamptzType

from moulin.iceberg.check.checker import check
from moulin.iceberg.check.metadata_files import Files
from moulin.iceberg.format.pyiceberg_values import from_pyiceberg_schema
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from tests.iceberg.rest.served import pyiceberg_catalog, served

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "ts", TimestamptzType(), required=False),
    NestedField(3, "name", StringType(), required=False),
)


@pytest.fixture
def catalog(lake: Lake) -> Iterator[Any]:
    with served(lake) as address:
        yield pyiceberg_catalog(address)


def _rows(*ids: int) -> pa.Table:
    stamps = pa.array([1_700_000_000_000_000 + i * 86_400_000_000 for i in ids], pa.timestamp("us", "UTC"))
    return pa.table({"id": pa.array(ids, pa.int64()), "ts": stamps, "name": [f"n{i % 2}" for i in ids]})


def _ours(lake: Lake, name: str = "shop.t") -> list[int]:
    return sorted(lake.table(name).scan().to_arrow()["id"].to_pylist())


def test_pyiceberg_creates_appends_overwrites_and_deletes(lake: Lake, catalog: Any) -> None:
    spec = PartitionSpec(
        PartitionField(1, 1000, BucketTransform(4), "by_id"), PartitionField(2, 1001, DayTransform(), "by_day")
    )
    order = SortOrder(SortField(1, IdentityTransform()))
    table = catalog.create_table("shop.t", SCHEMA, partition_spec=spec, sort_order=order, properties={"owner": "me"})
    state = lake.table("shop.t").state()
    assert [field.name for field in state.spec.fields] == ["by_id", "by_day"]
    assert (state.properties["owner"], state.sort_order.order_id) == ("me", 1)
    table.append(_rows(*range(10)))
    assert _ours(lake) == list(range(10))
    with pytest.warns(UserWarning, match="copy-on-write"):
        table.delete("id = 3")
    with pytest.warns(UserWarning, match="copy-on-write"):
        table.overwrite(_rows(100, 101), overwrite_filter="id >= 8")
    assert _ours(lake) == [0, 1, 2, 4, 5, 6, 7, 100, 101]
    table.append(_rows(200))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == _ours(lake)
    assert catalog.load_table("shop.t").scan(row_filter="id > 150").to_arrow()["id"].to_pylist() == [200]
    assert check(project(lake.context, state.id).location, Files(lake.store)) == []
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.snapshot_id == catalog.load_table("shop.t").current_snapshot().snapshot_id


def test_deletes_of_ours_stay_deleted(lake: Lake, catalog: Any) -> None:
    made = lake.create_table("shop.t", [("id", "long"), ("name", "string")], properties={"format-version": "2"})
    made.append([{"id": i, "name": "a"} for i in range(10)])
    made.delete_where("id < 3")
    table = catalog.load_table("shop.t")
    table.append(pa.table({"id": pa.array([50], pa.int64()), "name": ["b"]}))
    assert _ours(lake) == [*range(3, 10), 50]
    with pytest.warns(UserWarning, match="copy-on-write"):
        table.delete("id = 5")  # rewrites our file
    assert _ours(lake) == [3, 4, 6, 7, 8, 9, 50]


def test_schema_and_spec_evolve(lake: Lake, catalog: Any) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    table.append(_rows(1, 2))
    with table.update_schema() as update:
        update.add_column("price", DoubleType(), doc="in euros")
        update.add_column("place", StructType(NestedField(0, "city", StringType(), required=False)))
        update.rename_column("name", "label")
        update.move_first("price")
    with table.update_schema() as update:
        update.delete_column("ts")
        update.add_column(("place", "zip"), StringType())
    with table.update_spec() as spec:
        spec.add_field("id", BucketTransform(8))
    with table.transaction() as transaction:
        transaction.set_properties(color="blue")
    state = lake.table("shop.t").state()
    assert [field.name for field in state.schema.fields] == ["price", "id", "label", "place"]
    assert str(state.spec.fields[0].transform) == "bucket[8]"
    assert state.properties["color"] == "blue"
    assert "schema.name-mapping.default" not in state.properties
    assert "zip" in str(state.schema.find_field("place").field_type)
    assert from_pyiceberg_schema(catalog.load_table("shop.t").schema()) == state.schema
    assert _ours(lake) == [1, 2]
    with table.transaction() as transaction:
        transaction.remove_properties("color")
    assert "color" not in lake.table("shop.t").state().properties


@pytest.mark.parametrize("version", ["2", "3"])
def test_partition_fields_keep_the_names_that_they_were_given(lake: Lake, catalog: Any, version: str) -> None:
    table = catalog.create_table("shop.t", SCHEMA, properties={"format-version": version})
    lake.table("shop.t").append(_rows(1, 2))

    def fields() -> list[tuple[int, str]]:
        shown = [(one.field_id, one.name) for one in catalog.load_table("shop.t").spec().fields]
        assert shown == [(one.field_id, one.name) for one in lake.table("shop.t").state().spec.fields]
        return shown

    with table.update_spec() as spec:
        spec.add_field("id", BucketTransform(8), "shard")
    assert fields() == [(1000, "shard")]
    with table.update_spec() as spec:
        spec.rename_field("shard", "part")
        spec.add_field("name", IdentityTransform(), "who")
    assert fields() == [(1000, "part"), (1001, "who")]
    lake.table("shop.t").append(_rows(3, 4))
    with table.update_spec() as spec:
        spec.remove_field("part")
    assert fields() == [(1001, "who")]
    with table.update_spec() as spec:
        spec.add_field("id", BucketTransform(8), "again")
    assert fields() == [(1001, "who"), (1002, "again")]
    lake.table("shop.t").append(_rows(5))
    assert sorted(catalog.load_table("shop.t").scan().to_arrow()["id"].to_pylist()) == _ours(lake) == [1, 2, 3, 4, 5]
    lake.table("shop.t").set_partitioning(["name", "bucket(8, id)"])
    assert fields() == [(1001, "who"), (1002, "again")], "the same fields keep what they have"


def test_a_partition_field_goes_with_its_column_in_one_commit(lake: Lake, catalog: Any) -> None:
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "name"))
    table = catalog.create_table("shop.t", SCHEMA, partition_spec=spec, sort_order=SortOrder(SortField(3)))
    lake.table("shop.t").append(_rows(1, 2))
    with table.transaction() as transaction:
        with transaction.update_spec() as changed:
            changed.remove_field("name")
            changed.add_field("ts", DayTransform())
        with transaction.update_sort_order() as order:
            order.asc("id", IdentityTransform())
        with transaction.update_schema() as update:
            update.delete_column("name")
    state = lake.table("shop.t").state()
    assert [field.name for field in state.schema.fields] == ["id", "ts"]
    assert [(field.name, str(field.transform)) for field in state.spec.fields] == [("ts_day", "day")]
    assert [field.source_id for field in state.sort_order.fields] == [1]
    assert sorted(catalog.load_table("shop.t").scan().to_arrow()["id"].to_pylist()) == _ours(lake) == [1, 2]
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            update.add_column("place", StringType())
        with transaction.update_spec() as changed:
            changed.add_field("place", IdentityTransform(), "where")
    assert [field.name for field in lake.table("shop.t").state().spec.fields] == ["ts_day", "where"]


@pytest.mark.parametrize("is_new", [True, False], ids=["new table", "table with rows"])
def test_every_schema_of_a_transaction_is_a_schema_of_the_table(lake: Lake, catalog: Any, is_new: bool) -> None:
    if is_new:
        transaction = catalog.create_table_transaction("shop.t", SCHEMA)
    else:
        catalog.create_table("shop.t", SCHEMA).append(_rows(1, 2))
        transaction = catalog.load_table("shop.t").transaction()
    with transaction:
        with transaction.update_schema() as update:
            update.add_column("tried", StringType())
        with transaction.update_schema() as update:
            update.delete_column("tried")
            update.add_column("taken", LongType())
    schemas = catalog.load_table("shop.t").metadata.schemas
    assert [[field.name for field in one.fields][3:] for one in schemas] == [[], ["tried"], ["taken"]]
    assert [one.find_field(name).field_id for one, name in zip(schemas[1:], ("tried", "taken"), strict=True)] == [4, 5]
    assert lake.table("shop.t").state().schema_id == 2
    assert _ours(lake) == ([] if is_new else [1, 2])


def test_of_two_writers_the_second_retries_and_both_are_kept(
    lake: Lake, catalog: Any, caplog: pytest.LogCaptureFixture
) -> None:
    one = catalog.create_table("shop.t", SCHEMA)
    other = catalog.load_table("shop.t")
    one.append(_rows(1))
    other.append(_rows(2))  # told 409, read again, retried
    assert "Commit failed due to a concurrent update" in caplog.text
    lake.table("shop.t").append([{"id": 3}])
    caplog.clear()
    other.append(_rows(4))
    assert "Commit failed due to a concurrent update" in caplog.text
    assert _ours(lake) == [1, 2, 3, 4]


def test_properties_of_snapshots_are_kept(lake: Lake, catalog: Any) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    table.append(_rows(1), snapshot_properties={"job": "nightly", "total-records": "99", "moulin.version": "1"})
    lake.table("shop.t").append([{"id": 2}])
    with pytest.warns(UserWarning, match="copy-on-write"):
        catalog.load_table("shop.t").overwrite(_rows(3), overwrite_filter="id = 1", snapshot_properties={"job": "b"})
    summaries = [one.summary for one in catalog.load_table("shop.t").snapshots()]
    assert [one.get("job") for one in summaries] == ["nightly", None, "b"]
    assert [one["total-records"] for one in summaries] == ["1", "2", "2"]
    newest = lake.table("shop.t").history()[0].summary
    assert (newest["engine"], newest["iceberg.job"]) == ("iceberg-rest", "b")
    with pytest.raises(Exception, match="at most 16,384 characters"):
        catalog.load_table("shop.t").append(_rows(9), snapshot_properties={"much": "x" * 20_000})
    assert _ours(lake) == [2, 3]


def test_an_erase_takes_the_partitions_that_a_snapshot_names(lake: Lake, catalog: Any) -> None:
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "name"))
    table = catalog.create_table(
        "shop.t", SCHEMA, partition_spec=spec, properties={"write.summary.partition-limit": "10"}
    )
    table.append(_rows(1, 2), snapshot_properties={"job": "nightly"})
    assert "iceberg.partitions.name=n1" in lake.table("shop.t").history()[0].summary
    lake.table("shop.t").erase("name = 'n1'")
    (mine,) = (one.summary for one in lake.table("shop.t").history() if "iceberg.job" in one.summary)
    assert not [key for key in mine if "partitions." in key]
    lake.own_catalog().publisher.publish()
    holding = [info.path for info in lake.store.list() if b"name=n1" in lake.store.get(info.path)]
    assert holding == []


def test_two_clients_that_hammer_one_table_lose_and_double_nothing(lake: Lake, catalog: Any) -> None:
    """Each is told 409 over and over by what the other does, and no append is lost or made twice."""
    many = {"commit.retry.num-retries": "50", "commit.retry.min-wait-ms": "5", "commit.retry.max-wait-ms": "50"}
    catalog.create_table("shop.t", SCHEMA, properties=many)
    lined_up = threading.Barrier(2)

    def appends(first: int) -> None:
        table = pyiceberg_catalog(catalog.uri).load_table("shop.t")
        lined_up.wait(timeout=60)
        for number in range(first, first + 10):
            table.append(_rows(number))

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(appends, first) for first in (0, 100)]:
            done.result()
    assert _ours(lake) == [*range(10), *range(100, 110)]
    table = catalog.load_table("shop.t")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == _ours(lake)
    kinds = [info.kind for info in lake.table("shop.t").history()]
    assert kinds.count("append") == 20
    assert check(project(lake.context, lake.table("shop.t").id).location, Files(lake.store)) == []


def test_properties_of_files_are_followed_or_refused(lake: Lake, catalog: Any) -> None:
    with pytest.raises(BadRequestError, match="takes parquet, not 'orc'"):
        catalog.create_table("shop.t", SCHEMA, properties={"write.format.default": "orc"})
    codec = {"write.parquet.compression-codec": "gzip", "write.distribution-mode": "hash"}
    table = catalog.create_table("shop.t", SCHEMA, properties=codec)
    with pytest.raises(BadRequestError, match="takes zstd, gzip"), table.transaction() as transaction:
        transaction.set_properties({"write.parquet.compression-codec": "lzo"})
    ours = lake.table("shop.t")
    ours.append(_rows(1, 2))
    (segment,) = lake.catalog.segments(ours.id, ours.version)
    footer = pq.read_metadata(pa.BufferReader(lake.store.get(segment.facts.path)))
    assert footer.row_group(0).column(0).compression == "GZIP"


def test_lists_of_another_length_than_the_column_has_are_refused(lake: Lake, catalog: Any) -> None:
    columns = pa.schema({"id": pa.int64(), "v": pa.list_(pa.float32(), 2)})
    ours = lake.create_table("shop.v", columns, properties={"format-version": "2"})
    table = catalog.load_table("shop.v")
    kind = pa.list_(pa.float32())
    table.append(pa.table({"id": [1, 2], "v": pa.array([[1, 2], None], kind)}))
    with pytest.raises(BadRequestError, match="does not fit the table"):
        table.append(pa.table({"id": [3], "v": pa.array([[1, 2, 3]], kind)}))
    assert ours.scan().to_pylist() == [{"id": 1, "v": [1.0, 2.0]}, {"id": 2, "v": None}]
    assert ours.scan().schema.field("v").type.list_size == 2
    table = catalog.load_table("shop.v")
    with table.update_schema() as update:
        update.add_column("name", StringType())
    assert ours.scan().schema.field("v").type.list_size == 2


def test_a_table_created_in_a_transaction_appears_with_its_rows(lake: Lake, catalog: Any) -> None:
    with catalog.create_table_transaction("shop.t", SCHEMA, properties={"format-version": "2"}) as transaction:
        transaction.append(_rows(7, 8))
        assert lake.tables("shop") == []
    assert _ours(lake) == [7, 8]


def test_refusals_reach_pyiceberg_as_its_own_errors(lake: Lake, catalog: Any) -> None:
    catalog.create_table("shop.t", SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("shop.t", SCHEMA)
    with pytest.raises(NoSuchTableError):
        catalog.load_table("shop.none")
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("shop")
    table = catalog.load_table("shop.t")
    table.append(_rows(1))
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "dev").commit()
    with pytest.raises(Exception, match="branch 'main' alone"):
        table.append(_rows(2), branch="dev")
