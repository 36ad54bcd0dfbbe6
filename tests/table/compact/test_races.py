"""Compactions that others were faster with, or whose rows were replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.table.compact import compaction


@pytest.mark.parametrize("other", ["compact", "overwrite"])
def test_a_compaction_leaves_alone_what_was_replaced_after_it_was_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    with moulin.connect(tmp_path, merge_background="off") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", [("id", "long", False)], primary_key=["id"])
        for start in range(0, 12, 3):
            table.put_batch([{"id": n} for n in range(start, start + 3)])
            table.flush()
        plan = compaction.plan

        def late(*given: Any, **options: Any) -> Any:
            groups = plan(*given, **options)
            monkeypatch.setattr(compaction, "plan", plan)
            if other == "compact":
                assert table.compact(everything=True).segments_in == 4
            else:
                table.overwrite([{"id": n} for n in range(12)])
            return groups

        monkeypatch.setattr(compaction, "plan", late)
        assert table.compact(everything=True).segments_in == 0
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(12))
        numbers = [segment.facts.number for segment in lake.catalog.segments(table.id, lake.version)]
        assert not lake.catalog.maintenance.merge_inputs_held([*numbers, *range(5)])
