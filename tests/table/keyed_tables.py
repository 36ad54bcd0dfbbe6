"""What the tests of keyed tables share: a schema, rows, and readers that do not trust each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from moulin.formats import deletion_vector
from moulin.lake import Lake
from moulin.table.table import Table

ITEMS = [("id", "long", False), ("name", "string"), ("amount", "double")]


def row(number: int, name: str = "a") -> dict[str, Any]:
    return {"id": number, "name": name, "amount": float(number)}


def rows(first: int, count: int, name: str = "a") -> list[dict[str, Any]]:
    return [row(number, name) for number in range(first, first + count)]


def by_id(found: pa.Table) -> dict[int, dict[str, Any]]:
    """Rows by their key; a key that is there twice fails the test."""
    listed = found.to_pylist()
    result = {one["id"]: one for one in listed}
    assert len(result) == len(listed), "one live row per key"
    return result


def plainly(lake: Lake, table: Table, version: int | None = None) -> dict[int, dict[str, Any]]:
    """The rows of a version as any engine would see them: Parquet files, less the positions in deletion vectors."""
    state = table.state(version)
    parts = []
    for segment in lake.catalog.segments(state.id, state.version):
        with lake.store.reader(segment.facts.path, segment.facts.size) as source:
            found = pq.read_table(source)
        if segment.vector is not None:
            vector = segment.vector
            blob = lake.store.get_range(vector.path, vector.offset, vector.length)
            gone = deletion_vector.to_array(deletion_vector.decode(blob))
            assert len(gone) == vector.cardinality
            found = found.filter(pa.array(~np.isin(np.arange(found.num_rows), gone)))
        parts += found.to_pylist()
    names = [field.name for field in state.schema.fields]
    result = {one["id"]: {name: one[name] for name in names} for one in parts}
    assert len(result) == len(parts), "one live row per key"
    return result


def check(lake: Lake, table: Table, expected: dict[int, dict[str, Any]], absent: list[int] | None = None) -> None:
    """Every way to read the table gives these rows."""
    assert by_id(table.scan().to_arrow()) == expected
    assert [one["id"] for one in table.scan(ordered=True).to_pylist()] == sorted(expected)
    assert table.scan().count() == len(expected)
    asked = [*expected, *(absent or [])]
    assert table.get_many(asked) == [expected.get(key) for key in asked]
    for key in asked[:20]:
        assert table.get(key) == expected.get(key)


def check_flushed(
    lake: Lake, table: Table, expected: dict[int, dict[str, Any]], absent: list[int] | None = None
) -> None:
    """The same, after a flush; then also whoever reads the files sees these rows."""
    table.flush()
    check(lake, table, expected, absent)
    assert plainly(lake, table) == expected
    snapshot = table.at(version=lake.version)
    assert by_id(snapshot.scan().to_arrow()) == expected
    asked = [*expected, *(absent or [])]
    assert snapshot.get_many(asked) == [expected.get(key) for key in asked]
