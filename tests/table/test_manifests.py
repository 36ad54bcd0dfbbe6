"""Full manifests on request, and what they say to others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.errors import NotFound, Unsupported
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.lake import Lake
from moulin.storage import paths
from moulin.table.table import Table
from tests.table.conftest import BACKENDS, SERVED, ids, rows

everywhere = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)


def full(table: Table, version: int) -> pb.Manifest:
    path = paths.table_manifest(table.id, version, "full")
    return codec.decode(table._context.store.get(path), path).manifest


@everywhere
def test_full_manifests_are_written_when_they_are_asked_for(lake: Lake, orders: Table) -> None:
    other = lake.create_table("shop.other", [("id", "long")])
    orders.append(rows(0, 3))
    version = orders.append(rows(3, 3)).version
    assert lake.write_manifests("shop.orders") == version
    manifest = full(orders, version)
    last, before = orders.history(2)
    assert (manifest.snapshot_id, manifest.previous_snapshot_id) == (last.snapshot_id, before.snapshot_id)
    assert manifest.writer == f"moulin {moulin.__version__}"
    assert [ref.num_rows for ref in manifest.data_files] == [3, 3]
    with pytest.raises(NotFound):
        full(other, other.version)
    assert lake.write_manifests() == lake.version
    assert not full(other, other.state().head_version).HasField("previous_snapshot_id")
    store = orders._context.store
    assert codec.decode(store.get(paths.lake_manifest(lake.version, "full")), "lake").manifest.lake
    with pytest.raises(NotFound, match="missing"):
        lake.write_manifests("shop.missing")


def test_full_manifests_have_what_merutable_asks_for(tmp_path: Path) -> None:
    columns = [("id", "long", False), ("name", "string"), ("tags", "list<string>"), ("price", "decimal(20, 2)")]
    columns += [("uid", "uuid"), ("day", "date"), ("small", "decimal(5, 1)"), ("score", "float")]
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", columns, primary_key=["id"], properties={"own": "x"})
        manifest = full(table, lake.write_manifests())
    properties = dict(manifest.properties)
    schema = json.loads(properties.pop("merutable.schema.json"))
    assert properties == {"own": "x", "merutable.format_version": "3"}
    shown = {column["name"]: (column["col_type"], column["nullable"]) for column in schema["columns"]}
    assert shown == {
        "id": ("Int64", False),
        "name": ("ByteArray", True),
        "price": ({"FixedLenByteArray": 9}, True),
        "uid": ({"FixedLenByteArray": 16}, True),
        "day": ("Int32", True),
        "small": ("Int32", True),
        "score": ("Float", True),
    }
    assert (schema["table_name"], schema["primary_key"], schema["schema_id"]) == ("orders", [0], 0)
    assert max(column["field_id"] for column in schema["columns"]) <= schema["last_column_id"]


def test_an_unknown_writer_feature_lets_others_read_and_not_write(tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", [("id", "long")])
        version = table.append([{"id": 1}]).version
        store, config = table._context.store, lake.config
        path = paths.table_manifest(table.id, version, "delta")
        manifest = codec.decode(store.get(path), path).manifest
        manifest.writer_features |= 1 << 40
        store.put(path, codec.encode(manifest, full=False))
    with Lake.open_replica(tmp_path / "lake") as replica:
        assert ids(replica.table("shop.orders")) == [1]
    with pytest.raises(Unsupported, match="newer"):
        recover(store, f"sqlite:///{tmp_path / 'again.sqlite'}", config)
