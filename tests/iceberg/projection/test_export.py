"""Exports are Iceberg tables of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from moulin.catalog.upkeep.gc import collect
from moulin.cli.main import app
from moulin.errors import FailedPrecondition
from moulin.iceberg.check import checker
from moulin.iceberg.format.avro import read_avro
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.model.operations import SetProperties
from moulin.model.tags import STATISTICS_PREFIX
from moulin.table.commit.change import SettingChange
from moulin.table.table import Table
from tests.iceberg.conftest import rows
from tests.interop.engines import duckdb_connection


@pytest.mark.parametrize("copy", [False, True])
def test_an_export_is_a_table(lake: Lake, orders: Table, tmp_path: Path, copy: bool) -> None:
    orders.append(rows(0, 10))
    version = orders.version
    orders.append(rows(10, 5, None))
    orders.delete_where("id in (3, 12)")
    expected = sorted(orders.scan().to_arrow().column("id").to_pylist())
    done = orders.export_iceberg(tmp_path / "out", copy=copy)
    if copy:
        shutil.rmtree(tmp_path / "lake" / "tables")
    else:
        older = orders.export_iceberg(tmp_path / "out", version=version)
        assert (tmp_path / "out/metadata/version-hint.text").read_text() == "2"
        assert StaticTable.from_metadata(older.metadata_location).scan().to_arrow().num_rows == 10
    found = StaticTable.from_metadata(done.metadata_location).scan().to_arrow()
    assert sorted(found.column("id").to_pylist()) == expected
    assert checker.check(done.metadata_location) == []
    assert checker.check(str(tmp_path / "out")) == []


@pytest.mark.parametrize("copy", [False, True])
def test_a_summary_says_what_the_manifests_list(lake: Lake, orders: Table, tmp_path: Path, copy: bool) -> None:
    """Of an export and of projections between which several commits lie: only what the last one added was added."""
    for step in range(3):
        orders.append([*rows(step * 20, 10), *rows(step * 20 + 10, 10, "us")])
        orders.delete_where(f"id in ({step * 20}, {step * 20 + 1})")
        if step == 1:
            project(lake.context, orders.id)
            orders.compact(everything=True)
    orders.append(rows(100, 5))
    done = orders.export_iceberg(tmp_path / "out", copy=copy)
    for location in (done.metadata_location, project(lake.context, orders.id).location):
        snapshot = json.loads(Path(location.removeprefix("file://")).read_text())["snapshots"][-1]
        manifests, _ = read_avro(Path(snapshot["manifest-list"].removeprefix("file://")).read_bytes(), "list")
        figures = dict.fromkeys(("files", "records", "deletes", "positions", "added", "added rows"), 0)
        for one in manifests:
            live = one["added_files_count"] + one["existing_files_count"]
            live_rows = one["added_rows_count"] + one["existing_rows_count"]
            figures["deletes" if one["content"] else "files"] += live
            figures["positions" if one["content"] else "records"] += live_rows
            if not one["content"] and one["added_snapshot_id"] == snapshot["snapshot-id"]:
                figures["added"] += one["added_files_count"]
                figures["added rows"] += one["added_rows_count"]
        summary = snapshot["summary"]
        assert figures == {
            "files": int(summary["total-data-files"]),
            "records": int(summary["total-records"]),
            "deletes": int(summary["total-delete-files"]),
            "positions": int(summary["total-position-deletes"]),
            "added": int(summary["added-data-files"]),
            "added rows": int(summary["added-records"]),
        }
        assert (figures["added"], figures["added rows"], figures["records"]) == (1, 5, 61)
        assert int(summary["changed-partition-count"]) >= 1
        assert checker.check(location) == []


def test_names_of_the_version_come_along(lake: Lake, orders: Table, tmp_path: Path) -> None:
    orders.append(rows(0, 3))
    first = orders.version
    orders.tag("first", first)
    orders.append(rows(3, 3))
    orders.tag("second")
    orders.tag("also second")
    orders.set_properties({"owner": "me"})
    for version, names, count in (
        (None, {"main", "second", "also second"}, 6),
        (first, {"main", "first"}, 3),
        (orders.tags()["second"], {"main", "second", "also second"}, 6),
    ):
        done = orders.export_iceberg(tmp_path / "out", version=version)
        table = StaticTable.from_metadata(done.metadata_location)
        assert set(table.refs()) == names
        assert {ref.snapshot_id for ref in table.refs().values()} == {table.current_snapshot().snapshot_id}
        for name in names:
            assert table.refs()[name].snapshot_ref_type == ("branch" if name == "main" else "tag")
            assert table.scan().use_ref(name).to_arrow().num_rows == count
        assert checker.check(done.metadata_location, every_snapshot=True) == []
    empty = lake.create_table("shop.empty", [("id", "long")])
    empty.tag("nothing")
    done = empty.export_iceberg(tmp_path / "empty")
    assert StaticTable.from_metadata(done.metadata_location).refs() == {}


def test_statistics_come_along(lake: Lake, orders: Table, tmp_path: Path) -> None:
    orders.append(rows(0, 3))
    metadata = project(lake.context, orders.id).metadata
    statistics = {
        "snapshot-id": metadata["current-snapshot-id"],
        "statistics-path": f"{metadata['location']}/metadata/7-stats.puffin",
        "file-size-in-bytes": 4,
        "file-footer-size-in-bytes": 2,
        "blob-metadata": [],
    }
    kept = f"tables/{orders.id}/metadata/7-stats.puffin"
    lake.store.put(kept, b"PFA1")
    key = f"{STATISTICS_PREFIX}{statistics['snapshot-id']}"
    setting = SetProperties({key: json.dumps(statistics)})
    lake.context.committer.commit([SettingChange(orders.id, orders.state().version, setting)])

    def exported(*, copy: bool) -> list[str]:
        found = orders.export_iceberg(tmp_path / "out", copy=copy)
        return [one.statistics_path for one in StaticTable.from_metadata(found.metadata_location).metadata.statistics]

    assert exported(copy=False) == [statistics["statistics-path"]]
    assert exported(copy=True) == [f"file://{tmp_path}/out/metadata/7-stats.puffin"]
    assert (tmp_path / "out/metadata/7-stats.puffin").read_bytes() == b"PFA1"
    lake.store.delete([kept])
    assert exported(copy=True) == [], "a file that is gone is not named"


def test_duckdb_finds_it_by_its_folder(orders: Table, tmp_path: Path) -> None:
    orders.append(rows(0, 10))
    orders.delete_where("id = 3")
    orders.export_iceberg(tmp_path / "out", copy=True)
    query = f"SELECT count(*), sum(id) FROM iceberg_scan('{tmp_path / 'out'}')"
    assert duckdb_connection().execute(query).fetchone() == (9, 42)


def test_an_export_into_the_lake_is_refused(orders: Table, tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match="inside the lake"):
        orders.export_iceberg(tmp_path / "lake" / "out")


def test_the_commands_export_check_and_list_engines(lake: Lake, orders: Table, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    orders.append(rows(0, 10))
    orders.delete_where("id = 3")
    folder = ["--lake", str(tmp_path / "lake")]
    run = CliRunner().invoke
    done = run(app, [*folder, "table", "export", "shop.orders", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["location"] == f"file://{tmp_path / 'out'}"
    for what in ("shop.orders", str(tmp_path / "out")):
        checked = run(app, [*folder, "check", "--iceberg", what, "--json"])
        assert (checked.exit_code, json.loads(checked.output)) == (0, {"json_version": 1, "rows": []})
    shown = run(app, [*folder, "table", "show", "shop.orders", "--engines", "--json"])
    reads = {row["engine"]: row["reads_it"] for row in json.loads(shown.output)["rows"]}
    assert reads["duckdb"]
    assert reads["daft"] == (orders.properties["format-version"] == "2")


def test_an_export_copies_everything_whatever_is_cleaned_up(
    lake: Lake, orders: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.append(rows(0, 10))
    orders.append(rows(10, 10))
    copied: list[str] = []
    reader = lake.store.reader

    def clean_first(path: str, size: int | None = None, etag: str = "") -> Any:
        if not copied:
            orders.overwrite(rows(90, 1))
            collect(lake.own_catalog(), history_keep=0, byte_floor=0, orphan_grace=0)
        copied.append(path)
        return reader(path, size, etag)

    monkeypatch.setattr(lake.store, "reader", clean_first)
    done = orders.export_iceberg(tmp_path / "out", copy=True)
    assert len(copied) == 2
    assert sorted(StaticTable.from_metadata(done.metadata_location).scan().to_arrow()["id"].to_pylist()) == [*range(20)]
