"""Puts and gets of every type: the fast path against the plain one, which goes through Arrow."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from moulin.errors import InvalidInput
from moulin.formats import log_entry
from moulin.lake import Lake
from moulin.model.rows.nano_datetime import NanoDatetime
from moulin.model.rows.record import RecordType
from moulin.model.schema import values as types
from moulin.model.schema.schema import make_schema
from moulin.table.table import Table
from tests.commands import fork

KINDS = [
    "boolean", "int", "long", "float", "double", "decimal(9, 2)", "decimal(38, 10)", "date", "time", "timestamp",
    "timestamptz", "timestamp_ns", "timestamptz_ns", "string", "uuid", "fixed(3)", "binary", "list<float>",
    "list<decimal(4, 1)>", "list<list<timestamp_ns>>", "struct<a: long, b: struct<c: time, d: uuid>>",
    "map<string, float>", "map<decimal(5, 2), list<date>>", "map<timestamptz_ns, struct<a: fixed(2), b: boolean>>",
]  # fmt: skip
COLUMNS = [("id", "long", False), *((f"c{index}", kind) for index, kind in enumerate(KINDS))]
SCHEMA = make_schema(COLUMNS)
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=-7, minutes=30))])
ODD = st.one_of(
    st.integers(), st.floats(), st.text(max_size=3), st.binary(max_size=4), st.decimals(), st.dates(), st.times(),
    st.datetimes(), st.datetimes(timezones=ZONES), st.uuids(), st.lists(st.integers(0, 9), max_size=2),
    st.sampled_from([{}, {"a": 1}, [None], np.float64(1.5), np.arange(2), True, (), [("x", 1.5)] * 2]),
)  # fmt: skip
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
LEAVES: dict[type, st.SearchStrategy[Any]] = {
    types.BooleanType: st.booleans(),
    types.IntegerType: st.integers(-(2**31) - 1, 2**31),
    types.LongType: st.integers(-(2**63) - 1, 2**63),
    types.FloatType: st.floats() | st.floats(width=32) | st.integers(-(2**25), 2**25),
    types.DoubleType: st.floats() | st.integers(-(2**54), 2**54),
    types.DateType: st.dates(),
    types.TimeType: st.times(),
    types.TimestampType: st.datetimes(),
    types.TimestamptzType: st.datetimes(timezones=ZONES),
    types.TimestampNanoType: st.datetimes() | st.integers(-(2**63), 2**63 - 1).map(lambda n: nanos(n, False)),
    types.TimestamptzNanoType: st.datetimes(timezones=ZONES)
    | st.integers(-(2**63), 2**63 - 1).map(lambda n: nanos(n, True)),
    types.StringType: TEXT,
    types.UUIDType: st.uuids(),
    types.BinaryType: st.binary(max_size=4),
}


def nanos(number: int, zoned: bool) -> NanoDatetime:
    return NanoDatetime.of(number, zoned=zoned)


def values_of(kind: types.IcebergType) -> st.SearchStrategy[Any]:
    """Values that fit a type, nearly fit it, or are None."""
    match kind:
        case types.ListType(element_type=element):
            found: st.SearchStrategy[Any] = st.lists(values_of(element), max_size=3)
        case types.MapType(key_type=key, value_type=value):
            keys = values_of(key).filter(lambda found: found is not None)
            pairs = st.lists(st.tuples(keys, values_of(value)), max_size=3)
            found = pairs | pairs.map(lambda given: {k: v for k, v in given if not isinstance(k, list | dict)})
        case types.StructType(fields=fields):
            found = st.fixed_dictionaries({}, optional={f.name: values_of(f.field_type) for f in fields})
        case types.DecimalType(precision=precision, scale=scale):
            found = st.integers(-(10**precision), 10**precision).map(
                lambda number: Decimal(number) * Decimal(10) ** -scale
            )
            found |= st.decimals(allow_nan=False) | st.integers()
        case types.FixedType(length=length):
            found = st.binary(min_size=length, max_size=length)
        case _:
            found = LEAVES[type(kind)]
    return st.none() | found


CELLS = st.sampled_from(range(len(KINDS))).flatmap(
    lambda index: st.tuples(st.just(f"c{index}"), st.one_of(*[values_of(SCHEMA.fields[index + 1].field_type)] * 4, ODD))
)


def put(table: Table, row: dict[str, Any], *, plainly: bool) -> str | None:
    """The error, if it was refused."""
    try:
        if plainly:
            table.put_batch([row])  # lists of rows with such types go through Arrow
        else:
            table.put(row)
    except InvalidInput as error:
        return str(error)
    return None


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Table, Table]]:
    folder: Path = tmp_path_factory.mktemp("types")
    with Lake.open(folder / "lake") as lake:
        lake.create_database("d")
        yield tuple(lake.create_table(f"d.{name}", SCHEMA, primary_key=["id"]) for name in ("fast", "plain"))  # type: ignore[misc]


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(cell=CELLS)
@example(cell=("c18", np.arange(2)))
@example(cell=("c17", np.arange(2)))
def test_both_paths_take_the_same_and_give_the_same(tables: tuple[Table, Table], cell: tuple[str, Any]) -> None:
    fast, plain = tables
    row = {"id": 1, cell[0]: cell[1]}
    for table in tables:
        table.put({"id": 1})
    refused = put(plain, row, plainly=True)
    assert put(fast, row, plainly=False) == refused
    try:
        expected = plain.get(1)
    except (ValueError, OverflowError):
        return  # Arrow holds a time that Python does not
    found = fast.get(1)
    assert same(found, expected), (found, expected)
    assert fast.scan().to_arrow().equals(plain.scan().to_arrow()) or "nan" in repr(expected).lower()


def same(found: Any, expected: Any) -> bool:
    """Equal, of the same type, and with NaN where the other has it."""
    if isinstance(expected, list | tuple):
        return type(found) is type(expected) and len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, dict):
        return same(list(found.items()), list(expected.items()))
    if isinstance(expected, float):
        return repr(found) == repr(expected)
    return type(found) is type(expected) and found == expected


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(cell=CELLS)
def test_the_log_gives_back_what_was_stored(cell: tuple[str, Any]) -> None:
    record = RecordType(SCHEMA)
    checked = record.check({"id": 1, cell[0]: cell[1]})
    if checked is None:
        return
    payload = log_entry.encode_row(0, checked)
    (read,) = log_entry.decode(payload).rows(log_entry.python_types(SCHEMA.fields))
    assert same(record.to_dict(read), record.to_dict(checked))
    assert record.to_arrow([read]).equals(record.to_arrow([checked])) or "nan" in repr(checked).lower()


@pytest.mark.parametrize("value", [[1.5, None], {"a": 1, "b": {"c": None, "d": None}}])
def test_rows_share_nothing_with_their_writers_and_readers(tables: tuple[Table, Table], value: Any) -> None:
    table = tables[0]
    name = "c17" if isinstance(value, list) else "c20"
    kept = repr(value)
    table.put({"id": 2, name: value})
    value.clear()
    found = table.get(2)
    assert found is not None
    assert repr(found[name]) == kept
    found[name].clear()
    again = table.get(2)
    assert again is not None
    assert repr(again[name]) == kept


MOMENT = datetime(2024, 1, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("kind", "key", "other"),
    [
        ("decimal(9, 2)", Decimal("1.5"), Decimal("-0.0")),
        ("time", time(1, 2, 3), time(0)),
        ("timestamp", MOMENT, datetime(2023, 1, 1)),
        ("timestamptz", MOMENT.replace(tzinfo=UTC), datetime(2023, 1, 1, tzinfo=UTC)),
        ("timestamp_ns", NanoDatetime.of(1_704_074_584_000_005_001, zoned=False), datetime(2023, 1, 1)),
        ("timestamptz_ns", MOMENT.replace(tzinfo=UTC), NanoDatetime.of(17, zoned=True)),
        ("fixed(3)", b"xyz", b"abc"),
        ("uuid", UUID(int=7), UUID(int=6)),
        ("date", date(2024, 1, 1), date(1900, 1, 1)),
    ],
)
def test_keys_of_every_type_are_found_wherever_their_rows_are(tmp_path: Path, kind: str, key: Any, other: Any) -> None:
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("d")
        table = lake.create_table("d.t", [("k", kind), ("vector", "list<float>")], primary_key=["k"])
        for flushed in (False, True):
            table.put({"k": key, "vector": [1.5]})
            table.put_batch([{"k": key, "vector": [2.5]}, {"k": other, "vector": None}])
            table.put({"k": other, "vector": [0.5]})
            if flushed:
                table.flush()
            assert [one["vector"] for one in map(table.get, (key, other)) if one] == [[2.5], [0.5]]
            assert table.scan(ordered=True).to_arrow()["vector"].to_pylist() == [[0.5], [2.5]]
            assert table.scan(start=key).to_arrow()["vector"].to_pylist() == [[2.5]]
            table.delete(key)
            assert table.get(key) is None
            assert table.scan().to_arrow()["vector"].to_pylist() == [[0.5]]


SAMPLES: list[Any] = [
    True, -5, 2**62, 0.1, float("inf"), Decimal("1.5"), Decimal(7), date(1, 1, 1), time(1, 2, 3, 4), MOMENT,
    MOMENT.replace(tzinfo=UTC), NanoDatetime.of(-1, zoned=False), NanoDatetime.of(1, zoned=True), "é\0", UUID(int=1),
    b"abc", b"", [0.1, None], [Decimal("-1.5")], [[MOMENT, None], None, []], {"b": {"c": time(1), "d": UUID(int=2)}},
    {"x": 0.1, "": None}, {Decimal("1.5"): [date(2024, 1, 1)]}, {MOMENT.replace(tzinfo=UTC): {"a": b"xy"}},
]  # fmt: skip


def put_samples(folder: str, done: Connection) -> None:
    table = Lake.open(folder).table("d.t")
    for number, value in enumerate(SAMPLES):
        table.put({"id": number, f"c{number}": value})
    done.send("all")
    done.recv()


@pytest.mark.crash
def test_rows_of_every_type_are_in_the_log_of_a_process_that_was_killed(tmp_path: Path) -> None:
    folder = str(tmp_path / "lake")
    with Lake.open(folder) as lake:
        lake.create_database("d")
        for name in ("t", "plain"):
            lake.create_table(f"d.{name}", SCHEMA, primary_key=["id"])
    ours, theirs = multiprocessing.Pipe()
    process = fork(put_samples, folder, theirs)
    assert ours.recv() == "all"
    process.kill()
    process.join()
    with Lake.open(folder) as lake:
        table, plain = lake.table("d.t"), lake.table("d.plain")
        plain.put_batch([{"id": number, f"c{number}": value} for number, value in enumerate(SAMPLES)])
        assert len(SAMPLES) == len(KINDS)
        for number in range(len(SAMPLES)):
            assert same(table.get(number), plain.get(number))
        assert table.scan(ordered=True).to_arrow().equals(plain.scan(ordered=True).to_arrow())
