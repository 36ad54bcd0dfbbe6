"""Levels of keyed tables: what moves on to the next, and what may do so at once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import moulin
from moulin.config import Config
from moulin.errors import InvalidInput
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.table.compact.picker import Group, pick_levels

MIB = 1 << 20
CONFIG = Config().replace(level0_trigger=2, level1_bytes=10 * MIB, level_growth=4, deepest_level=5)


def level(at: int, count: int, mib: int) -> list[LiveSegment]:
    """Segments of a level, with keys of their own."""
    return [
        LiveSegment(
            SegmentFacts(
                number=100 * at + n,
                path=f"{at}-{n}",
                rows=10,
                size=mib * MIB,
                level=at,
                schema_id=0,
                spec_id=0,
                partition=(),
                sha256=b"",
                columns=(),
                key_min=bytes([10 * n]),
                key_max=bytes([10 * n + 9]),
            ),
            0,
            1,
            1,
            None,
        )
        for n in range(count)
    ]


def shape(groups: list[Group]) -> list[tuple[int, Counter[int]]]:
    return [(group.level, Counter(s.facts.level for s in group.segments)) for group in groups]


def due(*levels: list[LiveSegment], config: Config = CONFIG) -> list[Group]:
    return pick_levels([s for part in levels for s in part], config, due_only=True, everything=False)


def test_a_level_moves_on_when_it_holds_more_than_its_share() -> None:
    assert due(level(1, 2, 5)) == []
    assert shape(due(level(1, 3, 5))) == [(2, Counter({1: 3}))]
    assert due(level(2, 4, 10)) == []
    assert shape(due(level(2, 5, 10))) == [(3, Counter({2: 5}))]
    assert due(level(3, 4, 40)) == []
    assert shape(due(level(3, 5, 40))) == [(4, Counter({3: 5}))]
    assert due(level(5, 9, 10_000)) == [], "the deepest level has no end"
    assert due(level(2, 9, 100), config=Config()) == [], "which is level 2 unless a setting says otherwise"


def test_levels_that_do_not_meet_are_compacted_at_once() -> None:
    groups = due(level(0, 3, 1), level(1, 3, 5), level(2, 6, 10), level(3, 1, 10))
    assert shape(groups) == [(1, Counter({0: 3, 1: 3})), (3, Counter({2: 6, 3: 1}))]
    numbers = [s.facts.number for group in groups for s in group.segments]
    assert len(numbers) == len(set(numbers))


def test_rows_move_down_through_the_levels_of_a_table(tmp_path: Path) -> None:
    settings = {"merge_background": "off", "level0_trigger": 2, "level1_bytes": 1, "level_growth": 1}
    with moulin.connect(tmp_path / "lake", **settings) as lake:
        lake.create_database("shop")
        properties = {"moulin.deepest-level": 4}
        columns = [("id", "long", False), ("n", "int")]
        table = lake.create_table("shop.items", columns, primary_key=["id"], properties=properties)
        seen = set()
        for turn in range(6):
            table.append([{"id": n, "n": turn} for n in range(turn, 40)])
            for _ in range(turn % 5):
                table.compact()
            seen |= {segment.facts.level for segment in table.scan().plan().segments}
            assert {row["id"]: row["n"] for row in table.scan().to_pylist()} == {n: min(n, turn) for n in range(40)}
            assert table.get(20) == {"id": 20, "n": min(20, turn)}
        assert seen == {0, 1, 2, 3, 4}
        table.compact(everything=True)
        assert [segment.facts.level for segment in table.scan().plan().segments] == [4]
        with pytest.raises(InvalidInput, match="at most 7"):
            table.set_properties({"moulin.deepest-level": 8})
