"""The join of merges finds exactly the pairs for which the condition holds, whatever the types of its two sides."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moulin.lake import Lake
from moulin.table.edit.matching import SourceKeys

NAN = float("nan")
VALUES = st.lists(st.none() | st.integers(0, 3), max_size=8)


@given(source=VALUES, target=VALUES, columns=st.integers(0, 3), most=st.integers(1, 20))
def test_pairs_are_those_of_two_loops(
    source: list[int | None], target: list[int | None], columns: int, most: int
) -> None:
    def sides(values: list[int | None]) -> list[pa.Array]:
        return [pa.array([None if v is None else (v + n) % 3 for v in values], pa.int64()) for n in range(columns)]

    one, other = sides(source), sides(target)
    found = list(SourceKeys(one, len(source)).pairs(other, len(target), most))
    assert all(0 < len(of_source) <= most for of_source, _ in found)
    pairs = [
        pair for of_source, of_target in found for pair in zip(of_source.tolist(), of_target.tolist(), strict=True)
    ]
    expected = {
        (s, t)
        for s in range(len(source))
        for t in range(len(target))
        if all(a[s].is_valid and a[s].as_py() == b[t].as_py() for a, b in zip(one, other, strict=True))
    }
    assert len(pairs) == len(expected)
    assert set(pairs) == expected


TYPED: list[tuple[Any, list[Any], pa.DataType, list[Any], list[tuple[int, int]]]] = [
    ("double", [0.0, NAN, 1.5, None], pa.float64(), [-0.0, NAN, 2.0, None], [(0, 0), (1, 1)]),
    ("int", [1, 2, 3], pa.float64(), [1.0, 2.5, NAN], [(0, 0)]),
    ("int", [1, 2, 3], pa.int64(), [2**40, 3, None], [(2, 1)]),
    ("float", [0.5, 0.1], pa.int64(), [0, 1], []),
    ("decimal(9, 2)", [Decimal("1.50"), Decimal("2.00")], pa.decimal128(9, 1), [Decimal("1.5"), None], [(0, 0)]),
    ("decimal(9, 2)", [Decimal("1.50"), Decimal("2.00")], pa.int64(), [2, 1], [(1, 0)]),
    ("date", [date(2024, 1, 2), None], pa.timestamp("us"), [datetime(2024, 1, 2), datetime(2024, 1, 2, 1)], [(0, 0)]),
    ("timestamp", [datetime(2024, 1, 2)], pa.date32(), [date(2024, 1, 2), date(2024, 1, 3)], [(0, 0)]),
    ("time", [time(1), time(2)], pa.time64("us"), [time(2)], [(1, 0)]),
    ("boolean", [True, False, None], pa.bool_(), [False, None], [(1, 0)]),
    ("binary", [b"a", b""], pa.binary(), [b"", b"b"], [(1, 0)]),
    ("uuid", [UUID(int=1), UUID(int=2)], pa.uuid(), [UUID(int=2).bytes, None], [(1, 0)]),
    ("string", ["é", "e"], pa.large_string(), ["é", ""], [(0, 0)]),
]


@pytest.mark.parametrize(("kind", "target", "arrow", "source", "expected"), TYPED, ids=range(len(TYPED)))
def test_equal_values_match_across_types(
    folder_lake: Lake, kind: str, target: list[Any], arrow: pa.DataType, source: list[Any], expected: Any
) -> None:
    name = f"shop.typed_{abs(hash((kind, str(arrow))))}"
    table = folder_lake.create_table(name, [("n", "long"), ("k", kind), ("m", "long")])
    table.append([{"n": n, "k": value} for n, value in enumerate(target)])
    rows = pa.table({"key": pa.array(source, arrow), "m": pa.array(np.arange(len(source)))})
    for on in ("t.k = s.key", "s.key = t.k and t.n >= 0"):
        outcome = table.merge(rows, on=on).when_matched_update({"m": "s.m"}).execute()
        assert outcome.rows_updated == len(expected)
    found = [(row["n"], row["m"]) for row in table.scan(where="m is not null").to_pylist()]
    assert sorted(found) == expected
