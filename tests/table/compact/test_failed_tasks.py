"""Compactions by hand of tables whose merge tasks failed."""

from __future__ import annotations

from pathlib import Path

import pytest

import moulin
from moulin.errors import Corrupt, FailedPrecondition
from moulin.table.compact.planner import rewrite_tasks
from moulin.table.compact.worker import CompactionWorker


def test_compact_names_tasks_that_failed_and_keep_their_segments(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", [("id", "long"), ("name", "string")])
        for _ in range(2):
            table.append({"id": list(range(100)), "name": ["x" * 50] * 100})
        rewrite_tasks(lake.context, table.id)
        files = list(lake.store.list(f"tables/{table.id}/data"))
        path = tmp_path / "lake" / files[0].path
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:-200])
        worker = CompactionWorker(lake.context, "w")
        failures = 0
        for _ in range(2):
            try:
                worker.run_once(table.id)
            except Corrupt:
                failures += 1
        assert failures == 1
        with pytest.raises(
            FailedPrecondition, match=r"1 segments of shop\.t were not compacted: merge task .* failed 1"
        ):
            table.compact()
        for task in lake.catalog.maintenance.merge_tasks(table.id):
            lake.catalog.maintenance.delete_merge_task(task.id)
        with pytest.raises(Corrupt):
            table.compact()
