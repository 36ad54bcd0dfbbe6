"""Scans that read by pages, and small segments together, against scans that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moulin import Lake
from moulin.errors import Corrupt
from moulin.formats.segment.decoder import Decoder
from moulin.table.table import Table

WHERES = (
    None,
    "id = 1007",
    "word = 'w3' and number > 2",
    "text like '%12%'",
    "word is null or number is null",
    "pair.a = 2",
    "_row_id > 1010 and number < 4",
)


def rows(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    return pa.table(
        {
            "id": numbers,
            "number": pa.array([None if n % 11 == 0 else float(n % 7) for n in numbers.tolist()]),
            "word": pa.array([None if n % 13 == 0 else f"w{n % 5}" for n in numbers.tolist()]),
            "text": pa.array([f"text {n}" for n in numbers.tolist()]),
            "pair": pa.array([{"a": n % 3, "tags": [str(n)] * (n % 3)} for n in numbers.tolist()]),
        }
    )


def lake_at(folder: Path, **options: Any) -> Lake:
    return Lake.open(str(folder), settings=options)


def made(folder: Path, steps: list[tuple[str, int]]) -> None:
    with lake_at(folder) as lake:
        lake.create_database("shop")
        columns = [
            ("id", "long"),
            ("number", "double"),
            ("word", "string"),
            ("text", "string"),
            ("pair", "struct<a: long, tags: list<string>>"),
        ]
        small = {"write.parquet.page-row-limit": "64", "write.parquet.row-group-limit": "500"}
        table = lake.create_table("shop.t", columns, properties=small)
        at = 1000
        for step, amount in steps:
            if step == "append":
                table.append(_fitting(table, rows(at, amount)))
                at += amount
            elif step == "delete":
                table.delete_where(f"number = {amount % 7} and word = 'w{amount % 5}'")
            elif step == "add" and "extra" not in table.schema.names:
                table.add_column("extra", "long", default=7)
            elif step == "compact":
                table.compact(everything=True)


def _fitting(table: Table, data: pa.Table) -> pa.Table:
    return data.append_column("extra", pa.array(data["id"])) if "extra" in table.schema.names else data


def scanned(lake: Lake, **options: Any) -> list[str]:
    return sorted(map(str, lake.table("shop.t").scan(**options).to_pylist()))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["append", "append", "delete", "add", "compact"]), st.integers(1, 1500)), max_size=7
    ),
    columns=st.sampled_from([None, ["id"], ["text", "pair"], ["word", "_row_id"]]),
)
def test_scans_by_pages_give_the_rows_of_plain_scans(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], columns: list[str] | None
) -> None:
    folder = tmp_path_factory.mktemp("lake") / "lake"
    made(folder, [("append", 40), ("append", 30), *steps])
    with lake_at(folder) as pages, lake_at(folder, scan_by_pages="off") as plain:
        for where in WHERES:
            expected = scanned(plain, where=where, columns=columns)
            assert scanned(pages, where=where, columns=columns) == expected
            some = scanned(pages, where=where, columns=columns, limit=5)
            assert len(some) == min(5, len(expected))
            assert set(some) <= set(expected)
            assert pages.table("shop.t").scan(where=where).count() == len(expected)


def test_a_limit_decodes_few_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lake_at(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", [("id", "long"), ("text", "string")])
        table.append(pa.table({"id": range(400_000), "text": [f"text {n}" for n in range(400_000)]}))
        decoded: list[int] = []
        groups = Decoder._groups

        def counted(self: Decoder, chosen: Any, leaves: Any, **more: Any) -> Any:
            decoded.extend(self._opened.group_rows[group] for group in chosen)
            return groups(self, chosen, leaves, **more)

        monkeypatch.setattr(Decoder, "_groups", counted)
        assert table.scan(where="id > 5", limit=3).to_arrow().num_rows == 3
        assert sum(decoded) < 100_000
        assert table.scan(where="id > 399990", limit=100).count() == 9


@pytest.mark.parametrize("where", [None, "id >= 0"])
def test_a_damaged_small_segment_is_named(tmp_path: Path, where: str | None) -> None:
    with lake_at(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", [("id", "long"), ("text", "string")])
        for n in range(5):
            table.append([{"id": n, "text": "some text"}])
        assert table.scan(where=where).to_arrow().num_rows == 5
        segments = lake.catalog.segments(table.id, table.version, with_columns=False)
        path = lake.store.local_path(segments[2].facts.path)
        assert path is not None
        data = bytearray(path.read_bytes())
        data[data.index(b"some text")] ^= 1
        path.chmod(0o600)
        path.write_bytes(data)
        with pytest.raises(Corrupt, match=segments[2].facts.path):
            table.scan(where=where).to_arrow()
