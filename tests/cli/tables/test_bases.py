"""Base paths, adoption, imports and moves on the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import moulin
from tests.cli.conftest import Run


def test_files_are_adopted_imported_and_moved(run: Run, tmp_path: Path) -> None:
    theirs, archive = tmp_path / "theirs", tmp_path / "archive"
    archive.mkdir()
    for day in (1, 2):
        (theirs / f"day=2026-01-0{day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [day, day + 10]}), theirs / f"day=2026-01-0{day}" / "f.parquet")
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        lake.create_table("shop.t", [("id", "long"), ("day", "date")], partition_by=["day"])
    assert "No base paths" in run("base", "list").out
    assert run("base", "add", str(archive), "--name", "archive", "--json").json()["name"] == "archive"
    done = run("table", "adopt", "shop.t", f"{theirs}/*/*.parquet", "--json").json()
    assert (done["files"], done["rows"]) == (2, 4)
    failed = run("table", "adopt", "shop.t", str(theirs))
    assert failed.code == 1
    assert "skip_known" in failed.err
    assert "Skipped: 2 known files" in run("table", "adopt", "shop.t", str(theirs), "--skip-known").out
    made = run("table", "import", str(theirs), "shop.imported", "--json").json()
    assert made["rows"] == 4
    moved = run("table", "move", "shop.t", "--base", "archive", "--where", "day < date '2026-01-02'", "--json").json()
    assert (moved["segments"], moved["rows"]) == (1, 2)
    assert len(run("base", "list", "--json").json()) == 2
    refused = run("base", "drop", "archive")
    assert refused.code == 1
    assert "is in use" in refused.err
    assert run("base", "add", str(tmp_path / "lake" / "tables"), "--name", "inner").code == 1
