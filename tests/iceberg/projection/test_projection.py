"""What a projection is made of, what it costs, and who may make one at the same time."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

import moulin
from moulin.catalog.upkeep.gc import collect
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.iceberg.check import checker
from moulin.iceberg.format.avro import read_avro
from moulin.iceberg.projection import rewrite
from moulin.iceberg.projection.projection import Projection, project
from moulin.lake import Lake
from moulin.table.table import Table
from tests.iceberg.conftest import COLUMNS, rows


def ids(made: Projection) -> list[int]:
    if made.snapshot_id is None:
        return []
    return sorted(StaticTable.from_metadata(made.location).scan().to_arrow().column("id").to_pylist())


def manifests(lake: Lake, made: Projection) -> list[dict[str, Any]]:
    snapshot = next(one for one in made.metadata["snapshots"] if one["snapshot-id"] == made.snapshot_id)
    name = snapshot["manifest-list"].rpartition("/")[2]
    return read_avro(lake.store.get(f"tables/{made.table_id}/metadata/{name}"), name)[0]


def entries(lake: Lake, made: Projection, manifest: dict[str, Any]) -> list[dict[str, Any]]:
    name = manifest["manifest_path"].rpartition("/")[2]
    return read_avro(lake.store.get(f"tables/{made.table_id}/metadata/{name}"), name)[0]


def test_an_empty_table_has_no_snapshot(lake: Lake, orders: Table) -> None:
    made = project(lake.context, orders.id)
    assert made.snapshot_id is None
    assert made.metadata["snapshots"] == []
    assert made.metadata["properties"]["gc.enabled"] == "false"
    assert checker.check(made.location) == []
    assert made.model().schema().find_field("id").required


def test_asking_again_writes_nothing(lake: Lake, orders: Table) -> None:
    orders.append(rows(0, 3))
    first = project(lake.context, orders.id)
    files = {info.path for info in lake.store.list(f"tables/{orders.id}/metadata")}
    assert project(lake.context, orders.id) == first
    assert {info.path for info in lake.store.list(f"tables/{orders.id}/metadata")} == files


def test_an_append_adds_one_manifest_and_keeps_the_others(lake: Lake, orders: Table) -> None:
    orders.append(rows(0, 3))
    before = manifests(lake, project(lake.context, orders.id))
    orders.append(rows(3, 4))
    made = project(lake.context, orders.id)
    after = manifests(lake, made)
    assert [one["manifest_path"] for one in after[:-1]] == [one["manifest_path"] for one in before]
    (entry,) = entries(lake, made, after[-1])
    assert entry["status"] == 1
    assert entry["snapshot_id"] == made.snapshot_id
    assert entry["sequence_number"] is None
    assert entry["data_file"]["partition"] == {"region": "eu"}
    assert ids(made) == list(range(7))


def test_skipped_versions_look_committed_and_expired(lake: Lake, orders: Table) -> None:
    orders.append(rows(0, 3))
    orders.append(rows(3, 4))
    made = project(lake.context, orders.id)
    found = [entry for manifest in manifests(lake, made) for entry in entries(lake, made, manifest)]
    (old,) = (entry for entry in found if entry["status"] == 0)
    infos = {info.sequence: info for info in orders.history()}
    assert old["sequence_number"] == old["file_sequence_number"] == 1
    assert old["snapshot_id"] == infos[1].snapshot_id
    (snapshot,) = made.metadata["snapshots"]
    assert snapshot["parent-snapshot-id"] == infos[1].snapshot_id
    if made.format_version == 3:
        assert old["data_file"]["first_row_id"] == 0
        assert (snapshot["first-row-id"], snapshot["added-rows"], made.metadata["next-row-id"]) == (3, 4, 7)


def test_deletes_replace_deletes(lake: Lake, orders: Table) -> None:
    orders.append(rows(0, 10))
    for victim in (3, 4, 5):
        orders.delete_where(f"id = {victim}")
        made = project(lake.context, orders.id)
        assert checker.check(made.location) == []
    assert ids(made) == [0, 1, 2, 6, 7, 8, 9]
    live = [
        entry["data_file"]
        for manifest in manifests(lake, made)
        if manifest["content"] == 1
        for entry in entries(lake, made, manifest)
        if entry["status"] != 2
    ]
    (file,) = live
    assert file["record_count"] == 3
    assert file["file_format"] == ("PUFFIN" if made.format_version == 3 else "PARQUET")
    assert file["referenced_data_file"].endswith(".parquet")


def test_row_lineage_is_kept_through_a_compaction(lake: Lake) -> None:
    table = lake.create_table("shop.t", COLUMNS)
    table.append(rows(0, 5))
    table.append(rows(5, 5))
    table.compact(everything=True)
    made = project(lake.context, table.id)
    (snapshot,) = made.metadata["snapshots"]
    assert snapshot["summary"]["operation"] == "replace"
    assert (snapshot["first-row-id"], snapshot["added-rows"]) == (10, 10)
    assert checker.check(made.location) == []


def test_settings_change_metadata_alone(lake: Lake, orders: Table) -> None:
    orders.append(rows(0, 3))
    before = project(lake.context, orders.id)
    orders.rename_column("amount", "cost")
    orders.set_partitioning(["bucket(4, id)"])
    orders.set_properties({"owner": "me"})
    made = project(lake.context, orders.id)
    assert made.metadata["snapshots"] == before.metadata["snapshots"]
    assert made.metadata["properties"]["owner"] == "me"
    assert made.metadata["default-spec-id"] == 1
    assert made.metadata["metadata-log"][-1]["metadata-file"] == before.location
    names = [field["names"] for field in json.loads(made.metadata["properties"]["schema.name-mapping.default"])]
    assert ["cost", "amount"] in names  # adopted files may have the older name


def test_keyed_tables_have_identifier_fields(lake: Lake) -> None:
    table = lake.create_table("shop.k", COLUMNS, primary_key=["id"])
    table.append(rows(0, 5))
    table.append(rows(2, 1, "us"))
    table.put(rows(9, 1)[0])
    table.delete(0)
    table.flush()
    made = project(lake.context, table.id)
    assert made.metadata["schemas"][0]["identifier-field-ids"] == [1]
    assert ids(made) == [1, 2, 3, 4, 9]
    assert checker.check(made.location) == []


def test_older_versions_stand_beside_the_line(lake: Lake, orders: Table) -> None:
    versions = []
    for n in range(4):
        orders.append(rows(n, 1))
        versions.append(orders.version)
    project(lake.context, orders.id, versions[0])
    newest = project(lake.context, orders.id)
    older = project(lake.context, orders.id, versions[2])
    assert ids(older) == [0, 1, 2]
    orders.append(rows(4, 1))
    made = project(lake.context, orders.id)
    assert [one["sequence-number"] for one in made.metadata["snapshots"]] == [1, 4, 5]
    assert made.metadata["metadata-log"][-1]["metadata-file"] == newest.location


def test_small_manifests_are_joined(lake: Lake, orders: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "MOST_SMALL", 4)
    for n in range(14):
        orders.append(rows(n, 1))
        if n % 3 == 2:
            orders.delete_where(f"id = {n}")
        made = project(lake.context, orders.id)
    assert len(manifests(lake, made)) <= 12
    assert ids(made) == [n for n in range(14) if n % 3 != 2]
    assert checker.check(made.location, every_snapshot=True) == []


def test_projectors_at_the_same_time_agree(lake: Lake, orders: Table) -> None:
    orders.append(rows(0, 3))
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: project(lake.context, orders.id), range(6)))
    assert len({one.location for one in made}) == 1


def test_clean_up_keeps_what_is_needed_and_no_more(lake: Lake, orders: Table) -> None:
    for n in range(3):
        orders.append(rows(n * 10, 10))
        orders.delete_where(f"id = {n * 10}")
        made = project(lake.context, orders.id)
    prefix = f"tables/{orders.id}/metadata"
    lake.store.put(f"{prefix}/{'0' * 32}-1-2.avro", b"left by a projector that was killed")
    before = {info.path for info in lake.store.list(prefix)}
    collect(lake.catalog, history_keep=0, orphan_grace=0, byte_floor=0)
    collect(lake.catalog, history_keep=0, orphan_grace=0, byte_floor=0)
    after = {info.path for info in lake.store.list(prefix)}
    assert after < before
    assert f"{prefix}/{'0' * 32}-1-2.avro" not in after
    assert ids(project(lake.context, orders.id)) == ids(made)
    assert checker.check(made.location) == []
    orders.append(rows(100, 1))
    again = project(lake.context, orders.id)
    assert checker.check(again.location, every_snapshot=True) == []
    assert ids(again) == [*ids(made), 100]


def test_what_does_not_fit_version_2_is_refused(lake: Lake) -> None:
    table = lake.create_table("shop.t", [("id", "long"), ("at", "timestamp_ns")], properties={"format-version": "2"})
    with pytest.raises(FailedPrecondition, match="timestamp_ns"):
        project(lake.context, table.id)
    table.set_properties({"format-version": "7"})
    with pytest.raises(InvalidInput, match="2 or 3"):
        project(lake.context, table.id)


NANOSECONDS = [{"id": 1, "at": "2024-03-01T00:00:00.000000001", "s": {"at": "2024-03-01T00:00:00", "n": 1}}, {"id": 2}]


@pytest.mark.parametrize("way", ["a restore", "drops"])
def test_version_2_shows_earlier_schemas_without_what_it_lacks(lake: Lake, way: str) -> None:
    """Columns of nanoseconds that are gone are in no schema, neither of metadata nor of manifests."""
    table = lake.create_table("shop.t", [("id", "long"), ("s", "struct<n: int>")], properties={"format-version": "3"})
    table.append([{"id": 0, "s": {"n": 7}}])
    before = table.state().version
    table.add_column("at", "timestamp_ns")
    table.add_column("s.at", "timestamp_ns")
    table.set_partitioning(["at", "id"])
    table.append(NANOSECONDS)
    table.tag("nanoseconds")
    if way == "a restore":
        table.restore(before)
    else:
        table.set_partitioning([])
        table.drop_column("at")
        table.drop_column("s.at")
        table.delete_where("id = 2")
    table.set_properties({"format-version": "2"})
    made = project(lake.context, table.id)
    assert made.format_version == 2
    assert checker.check(made.location, every_snapshot=True) == []
    assert "timestamp_ns" not in json.dumps(made.metadata)
    for manifest in manifests(lake, made):
        name = manifest["manifest_path"].rpartition("/")[2]
        _, header = read_avro(lake.store.get(f"tables/{made.table_id}/metadata/{name}"), name)
        assert "timestamp_ns" not in header["schema"]
        assert "timestamp-nanos" not in header["avro.schema"]
    assert ids(made) == ([0] if way == "a restore" else [0, 1])


def test_a_lake_whose_path_has_a_space_is_projected_with_plain_names(tmp_path: Path) -> None:
    """A deletion vector names its data file as manifests do, and nothing is percent-encoded there."""
    with moulin.connect(tmp_path / "a lake é") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", COLUMNS)
        table.append(rows(0, 5))
        table.delete_where("id < 2")
        made = project(lake.context, table.id)
        assert checker.check(made.location) == []
        assert ids(made) == [2, 3, 4]
