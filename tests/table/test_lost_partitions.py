"""Files that are partitioned by a dropped column: compactions write them under the partitioning of now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.table.compact import job


@pytest.mark.parametrize("numbers", [4096, 2], ids=["", "too few numbers"])
@pytest.mark.parametrize("keyed", [False, True], ids=["event", "keyed"])
@pytest.mark.parametrize("memory", [256 << 20, 500], ids=["", "little memory"])
def test_a_compaction_leaves_partitions_of_dropped_columns(
    keyed: bool, numbers: int, memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "_NUMBERS", numbers)
    columns = [("id", "long", False), ("old", "string"), ("new", "int")]
    options: dict[str, Any] = {"primary_key": ["id"]} if keyed else {"sort_by": ["id desc"]}
    with moulin.connect(tmp_path / "lake", merge_memory_bytes=memory) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", columns, partition_by=["old"], **options)
        table.append([{"id": n, "old": f"p{n % 2}", "new": n % 3} for n in range(60)])
        lineage = {row["id"]: row["_row_id"] for row in table.scan(columns=["id", "_row_id"]).to_arrow().to_pylist()}
        table.compact(everything=True)
        table.set_partitioning(["new"])
        table.drop_column("old")
        table.delete_where("id in (5, 6)")
        table.append([{"id": n, "new": None} for n in (100, 101)])

        def specs() -> set[int]:
            return {one.facts.spec_id for one in lake.catalog.segments(table.id, lake.catalog.version())}

        assert specs() == {0, 1}
        table.compact(everything=True)
        assert specs() == ({1} if numbers > 2 else {0, 1})
        if keyed:
            table.put({"id": 7, "new": 2})
            table.delete(8)
            table.flush()
            table.compact(everything=True)
            assert table.get(7)["new"] == 2
        expected = sorted({*range(60), 100, 101} - {5, 6} - ({8} if keyed else set()))
        found = table.scan(columns=["id", "_row_id"]).to_arrow().to_pylist()
        assert sorted(row["id"] for row in found) == expected
        assert {row["id"]: row["_row_id"] for row in found if row["id"] < 100}.items() <= lineage.items()
        pruned = table.scan(where="new = 1").to_arrow()["id"].to_pylist()
        assert sorted(pruned) == [n for n in expected if n < 100 and n % 3 == 1 and not (keyed and n == 7)]
        assert check(lake.own_catalog()) == []
