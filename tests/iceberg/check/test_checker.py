"""The checker finds planted faults, and names the rule each one breaks."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest

from moulin.iceberg.check import checker
from moulin.lake import Lake
from moulin.table.table import Table
from tests.iceberg.conftest import COLUMNS, rows

Change = Callable[[dict[str, Any]], None]


class Planted:
    """An exported table of its own, to damage."""

    def __init__(self, metadata: str) -> None:
        self.path = Path(metadata.removeprefix("file://"))
        self.metadata: dict[str, Any] = json.loads(self.path.read_text())

    def rules(self) -> set[str]:
        return {finding.rule for finding in checker.check(str(self.path))}

    def save(self) -> None:
        self.path.write_text(json.dumps(self.metadata))

    @property
    def manifest_list(self) -> Path:
        return Path(self.metadata["snapshots"][0]["manifest-list"].removeprefix("file://"))

    def change_list(self, content: int, change: Change) -> None:
        rewrite(self.manifest_list, lambda record: change(record) if record["content"] == content else None)

    def change_entries(self, content: int, change: Change) -> None:
        """Change the entries of a manifest; the list gets its new length."""

        def update(manifest: dict[str, Any]) -> None:
            path = Path(manifest["manifest_path"].removeprefix("file://"))
            rewrite(path, change)
            manifest["manifest_length"] = path.stat().st_size

        self.change_list(content, update)


def rewrite(path: Path, change: Change) -> None:
    """Read an Avro file, change its records and write it with the same schema and header."""
    reader: Any = fastavro.reader(io.BytesIO(path.read_bytes()))
    records = list(reader)
    for record in records:
        change(record)
    header = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
    out = io.BytesIO()
    fastavro.writer(out, reader.writer_schema, records, metadata=header)
    path.write_bytes(out.getvalue())


@pytest.fixture
def planted(lake: Lake, tmp_path: Path) -> Planted:
    table: Table = lake.create_table("shop.t", COLUMNS, partition_by=["region"])
    table.append(rows(0, 10))
    table.append(rows(10, 10))
    table.delete_where("id in (3, 12)")
    made = Planted(table.export_iceberg(tmp_path / "out", copy=True).metadata_location)
    assert made.rules() == set()
    return made


def _set(name: str, value: Any) -> Change:
    return lambda record: record.__setitem__(name, value)


def _of_file(name: str, value: Any) -> Change:
    return lambda record: record["data_file"].__setitem__(name, value)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (_set("current-schema-id", 9), "current-schema-id is one of schemas"),
        (_set("default-spec-id", 9), "default-spec-id is one of partition-specs"),
        (_set("last-column-id", 1), "last-column-id is the highest"),
        (_set("last-partition-id", 1), "last-partition-id is the highest"),
        (_set("last-sequence-number", 0), "no snapshot is past last-sequence-number"),
        (_set("next-row-id", 3), "row ids are below next-row-id"),
        (_set("table-uuid", None), "required fields are present"),
        (_set("refs", {"main": {"snapshot-id": 1, "type": "branch"}}), "current-snapshot-id is that of main"),
        (_set("format-version", 2), "deletion vectors exist from version 3 on"),
        (
            lambda m: m["snapshots"][0]["summary"].update({"total-records": "7"}),
            "a summary's totals are those of its files",
        ),
        *(
            (
                lambda m, key=key: m["snapshots"][0]["summary"].update({key: "77"}),
                "a summary's totals are those of its files",
            )
            for key in (
                *("total-files-size", "total-delete-files", "total-position-deletes", "changed-partition-count"),
                *("added-data-files", "added-records", "added-delete-files", "added-position-deletes"),
                *("added-files-size", "deleted-data-files", "deleted-records", "removed-delete-files"),
            )
        ),
        (lambda m: m["snapshots"][0].update({"added-rows": 10**6}), "a snapshot's rows are below next-row-id"),
        (lambda m: m["schemas"][0]["fields"][1].update(id=1), "field ids are unique"),
    ],
)  # fmt: skip
def test_a_fault_in_metadata_is_found_by_its_rule(planted: Planted, change: Change, rule: str) -> None:
    change(planted.metadata)
    planted.save()
    assert rule in planted.rules()


@pytest.mark.parametrize(
    ("content", "change", "rule"),
    [
        (0, _set("manifest_length", 1), "manifest_length is the file's"),
        (0, _set("existing_files_count", 9), "the list counts a manifest right"),
        (0, _set("min_sequence_number", 99), "min_sequence_number is the least"),
        (0, _set("sequence_number", 99), "a manifest is not newer than its snapshot"),
        (0, _set("partition_spec_id", 5), "a manifest's spec is known"),
        (0, _set("manifest_path", "/nowhere.avro"), "a manifest exists"),
        (1, _set("first_row_id", 4), "a delete manifest has no first row id"),
    ],
)
def test_a_fault_in_a_manifest_list_is_found_by_its_rule(
    planted: Planted, content: int, change: Change, rule: str
) -> None:
    planted.change_list(content, change)
    assert rule in planted.rules()


@pytest.mark.parametrize(
    ("content", "change", "rule"),
    [
        (0, _set("sequence_number", None), "only added entries inherit a sequence number"),
        (0, _set("sequence_number", 99), "an entry is not newer than its snapshot"),
        (0, _of_file("record_count", 11), "record_count is the file's"),
        (0, _of_file("file_size_in_bytes", 1), "file_size_in_bytes is the file's"),
        (0, _of_file("file_path", "/nowhere.parquet"), "a data file exists"),
        (0, _of_file("first_row_id", 0), "row id ranges do not overlap"),
        (0, _of_file("lower_bounds", [{"key": 1, "value": (99).to_bytes(8, "little")}]), "bounds hold for the data"),
        (0, _of_file("upper_bounds", [{"key": 3, "value": b"a"}]), "bounds hold for the data"),
        (0, _of_file("null_value_counts", [{"key": 1, "value": 2}]), "counts are those of the data"),
        (0, _of_file("content", 1), "data and delete files are not mixed"),
        (0, _of_file("partition", {"region": None}), "a partition summary covers its values"),
        (1, _of_file("content_offset", 5), "offset and length are those of a blob"),
        (1, _of_file("content_size_in_bytes", 20), "offset and length are those of a blob"),
        (1, _of_file("record_count", 2), "record_count is the cardinality"),
        (1, _of_file("referenced_data_file", "/nowhere.parquet"), "a delete file is about a live data file"),
        (1, _of_file("partition", {"region": "us"}), "a delete lies in its data's partition"),
    ],
)
def test_a_fault_in_a_manifest_is_found_by_its_rule(planted: Planted, content: int, change: Change, rule: str) -> None:
    planted.change_entries(content, change)
    assert rule in planted.rules()


def test_a_flipped_bit_in_a_deletion_vector_is_found(planted: Planted) -> None:
    (file,) = planted.path.parent.parent.glob("data/*.puffin")
    data = bytearray(file.read_bytes())
    data[30] ^= 1
    file.write_bytes(bytes(data))
    assert planted.rules() == {"a deletion vector is well-formed"}


def test_a_file_that_is_not_a_table_is_one_finding(tmp_path: Path) -> None:
    (tmp_path / "x.metadata.json").write_text("[]")
    assert [finding.rule for finding in checker.check(str(tmp_path / "x.metadata.json"))] == ["metadata is readable"]


def test_a_table_that_pyiceberg_wrote_has_no_findings(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("shop")
    data = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", None, "c" * 50]})
    table = catalog.create_table("shop.t", data.schema)
    table.append(data)
    table.append(data)
    assert checker.check(table.metadata_location, every_snapshot=True) == []
    catalog.close()
