"""Schemas that changed: DuckDB reads segments of every age as a scan does."""

from __future__ import annotations

import tempfile
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

import moulin
from moulin.lake import Lake
from moulin.table.table import Table
from tests.duck.conftest import rows

DEFAULTS: dict[str, Any] = {
    "boolean": True,
    "int": -3,
    "long": 2**40,
    "float": 0.1,
    "double": 1e-300,
    "decimal(20, 3)": Decimal("-1.500"),
    "date": date(1960, 2, 29),
    "time": time(1, 2, 3, 4),
    "timestamp": datetime(1960, 1, 2, 3, 4, 5, 6),
    "timestamptz": datetime(1960, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    "timestamp_ns": "2020-01-02T03:04:05.000006007",
    "timestamptz_ns": "2020-01-02T03:04:05.000006+00:00",
    "string": "it's \\x41 'new'",
    "uuid": UUID(int=5),
    "fixed[3]": b"\x00'\xff",
    "binary": b"\\x41",
}


def agree(lake: Lake, table: Table) -> None:
    """DuckDB and a scan have the same rows."""
    found = sorted((_plain(row) for row in rows(lake.duckdb(), "FROM d.t")), key=str)
    assert found == sorted((_plain(row) for row in table.scan().to_pylist()), key=str)


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list() if value and all(isinstance(one, tuple) for one in value):  # a map
            return {name: _plain(one) for name, one in value}
        case list():
            return [_plain(one) for one in value]
        case datetime():
            return value.replace(tzinfo=None).isoformat(timespec="microseconds")[:26]
    return value


def test_rows_stored_before_a_column_have_its_default(lake: Lake) -> None:
    table = lake.create_table("d.t", [("id", "int")])
    table.append([{"id": 1}])
    for number, (kind, default) in enumerate(DEFAULTS.items()):
        table.add_column(f"c{number}", kind, default=default)
    table.append([{"id": 2, **{f"c{n}": None for n in range(len(DEFAULTS))}}])
    agree(lake, table)


def test_structs_lists_and_maps_follow_their_fields_by_id(lake: Lake) -> None:
    inner = "struct<x: int, y: string>"
    table = lake.create_table(
        "d.t", [("id", "int"), ("s", inner), ("l", f"list<{inner}>"), ("m", f"map<string, {inner}>"), ("z", "int")]
    )
    value = {"x": 1, "y": "a"}
    full = {"s": value, "l": [value, None], "m": {"k": value, "none": None}, "z": 1}
    table.append([{"id": 1, **full}, {"id": 2, "s": None, "l": None, "m": None, "z": None}, {"id": 3, **full, "l": []}])
    for path in ("s", "l.element", "m.value"):
        table.rename_column(f"{path}.x", "renamed")
        table.widen_column(f"{path}.renamed", "long")
        table.drop_column(f"{path}.y")
        table.add_column(f"{path}.y", "double")
        table.add_column(f"{path}.more", "string", default="it's")
    later = {"renamed": 2**40, "y": 0.5, "more": "now"}
    table.append([{"id": 4, "s": later, "l": [later], "m": {"k": later}, "z": 2}])
    table.delete_where("id = 3")
    agree(lake, table)


STEPS = ("append", "delete", "add", "drop", "rename", "widen", "swap", "compact")


@settings(max_examples=12, deadline=None)
@given(keyed=st.booleans(), steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5)), max_size=9))
def test_a_table_of_any_history_reads_as_a_scan_does(keyed: bool, steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder, moulin.connect(folder) as lake:
        lake.create_database("d")
        columns = [("id", "long", False), ("a", "int"), ("b", "float"), ("c", "string")]
        table = lake.create_table("d.t", columns, primary_key=["id"] if keyed else [])
        connection = lake.duckdb()
        for number, (step, choice) in enumerate(steps):
            _take(table, step, choice, number)
            lake.duckdb(connection)
            assert connection.execute("SELECT count(*) FROM d.t").fetchall() == [(table.scan().count(),)]
        agree(lake, table)


def _take(table: Table, step: str, choice: int, number: int) -> None:
    names = [field.name for field in table.schema][1:]
    name = names[choice % len(names)] if names else None
    match step:
        case "append":
            kinds = {field.name: str(field.type) for field in table.schema}
            table.append([_row(kinds, 4 * number + n) for n in range(choice)])
        case "delete":
            table.delete_where(f"id >= {choice} and id < {choice * 2}")
        case "add":
            table.add_column(f"n{number}", "int", default=choice or None)
        case "drop" if name:
            table.drop_column(name)
        case "rename" if name:
            table.rename_column(name, f"r{number}")
        case "widen" if name and str(table.schema.field(name).type) in ("int32", "float"):
            table.widen_column(name, "long" if str(table.schema.field(name).type) == "int32" else "double")
        case "swap" if len(names) > 1:
            first, second = names[:2]
            table.rename_column(first, "between")
            table.rename_column(second, first)
            table.rename_column("between", second)
        case "compact":
            table.compact(everything=True)


def _row(kinds: dict[str, str], number: int) -> dict[str, Any]:
    return {name: str(number) if kind == "string" else number for name, kind in kinds.items()}
