"""An error about a file says what is wrong with it, and quotes nothing of what is in it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import moulin
from moulin.iceberg.projection.projection import project
from tests.cli.conftest import Run

SECRET = "s3cr3t"
CONTENTS = {
    "text": f"root:{SECRET}:0:0\n{SECRET}\n",
    "a JSON text": json.dumps(SECRET),
    "a JSON object": json.dumps({"format": SECRET, "version": SECRET, "format-version": SECRET, SECRET: SECRET}),
    "nearly metadata": json.dumps({"format": 1, "id": SECRET, "format-version": 2, "snapshots": SECRET, SECRET: 1}),
}
FILES = {
    "moulin.json": "lake/moulin.json",
    "moulin.toml": "lake/moulin.toml",
    "access.toml": "lake/access.toml",
    "the catalog": "lake/catalog.sqlite",
    "a manifest": "lake/tables/*/manifests/*.delta",
    "a segment": "lake/tables/*/data/*/*.parquet",
    "a deletion vector": "lake/tables/*/deletes/*.puffin",
    "an index": "lake/tables/*/indexes/*.index",
    "metadata": "lake/tables/*/metadata/*.json",
    "a manifest list": "lake/tables/*/metadata/snap-*.avro",
    "metadata elsewhere": "export/metadata/*.json",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", [("id", "long"), ("name", "string")])
        table.append(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
        table.delete_where("id = 2")
        table.create_index("id")
        table.export_iceberg(tmp_path / "export")
        project(lake.context, table.id)
    for name in ("moulin.toml", "access.toml"):
        (tmp_path / "lake" / name).touch()
    return tmp_path


@pytest.mark.sample(4)
@pytest.mark.parametrize("pattern", FILES.values(), ids=FILES)
def test_commands_do_not_quote_files(run: Run, folder: Path, pattern: str) -> None:
    file = next(folder.glob(pattern))
    words = [
        ("db", "list"),
        ("scan", "shop.t"),
        ("scan", "shop.t", "--where", "id = 3"),
        ("access", "list"),
        ("check",),
        ("check", "--iceberg", str(file)),
        ("check", "--iceberg", str(folder / "export")),
        ("table", "show", "shop.t", "--engines"),
        ("recover",),
    ]
    for name, content in CONTENTS.items():
        file.write_text(content)
        for command in words:
            done = run(*command)
            assert SECRET not in done.out + done.err, (name, command)
            assert "Unexpected" not in done.err, (name, command)
