"""Random tables with every kind of column that files are ruled out by, and random conditions in Spark's SQL on them."""

from __future__ import annotations

import math
import random
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

COLUMNS = [
    ("id", "long", False),
    ("ts", "timestamptz"),
    ("Nt", "timestamp_ns"),
    ("zn", "timestamptz_ns"),
    ("d", "date"),
    ("name", "string"),
    ("x", "double"),
    ("f", "float"),
    ("k", "int"),
    ("flag", "boolean"),
    ("price", "decimal(9, 2)"),
    ("u", "uuid"),
    ("s", "struct<a: long, b: string, at: timestamp_ns>"),
]
START = datetime(2024, 3, 1, tzinfo=UTC)
_NAMES = ["", "a", "ab", "abc", "b", "ba", "B", "é", "éa", "\U0001f600", "a%b", "a_b", "null", "it's"]
_FLOATS = [0.0, -0.0, 1.0, 1.5, -2.5, 1e300, math.nan, math.inf, -math.inf, 0.1]


def row(chance: random.Random, number: int) -> dict[str, Any]:
    """A row; rows with near numbers have near times."""
    ts = START + timedelta(minutes=number * 7, microseconds=chance.randrange(3))
    nanos = int(ts.timestamp()) * 10**9 + chance.choice([0, 1, 999, 1000, 1001, -1])
    values: dict[str, Any] = {
        "ts": ts,
        "Nt": nanos,
        "zn": nanos + 500,
        "d": (START + timedelta(days=number // 20)).date(),
        "name": chance.choice(_NAMES),
        "x": chance.choice(_FLOATS),
        "f": chance.choice([0.0, 1.5, math.nan, 0.1, -3.0]),
        "k": number // 10 - 3,
        "flag": chance.random() < 0.5,
        "price": Decimal(chance.randrange(-300, 300)) / 100,
        "u": uuid.UUID(int=number << 100),
        "s": {"a": number // 5, "b": chance.choice(_NAMES), "at": nanos},
    }
    return {"id": number, **{name: None if chance.random() < 0.1 else value for name, value in values.items()}}


def arrow(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows as the table's own types."""
    arrays = []
    for field in schema:
        values = [one.get(field.name) for one in rows]
        if isinstance(field.type, pa.BaseExtensionType):
            bytes_ = pa.array([None if v is None else v.bytes for v in values], field.type.storage_type)
            arrays.append(pa.ExtensionArray.from_storage(field.type, bytes_))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.table(arrays, schema=schema)


def condition(chance: random.Random, depth: int = 2) -> str:
    """A condition that Spark takes."""
    if depth and chance.random() < 0.5:
        left, right = condition(chance, depth - 1), condition(chance, depth - 1)
        return chance.choice(
            [f"({left} and {right})", f"({left} or {right})", f"not {left}", f"not ({left} or {right})"]
        )
    return f"({chance.choice(_LEAVES)(chance)})"


def _operator(chance: random.Random) -> str:
    return chance.choice(["=", "<", "<=", ">", ">=", "<>", "<=>"])


def _compared(*columns: str) -> Any:
    def leaf(chance: random.Random) -> str:
        column = chance.choice(columns)
        value = chance.choice([_VALUES[column.lower()](chance)] * 9 + ["null"])
        if chance.random() < 0.2:
            return f"{value} {_operator(chance)} {column}"
        return f"{column} {_operator(chance)} {value}"

    return leaf


def _listed(chance: random.Random) -> str:
    column = chance.choice(list(_VALUES))
    values = [_VALUES[column](chance) for _ in range(chance.choice([1, 3, 15]))] + chance.choice([[], [], ["null"]])
    return f"{column} {chance.choice(['', 'not '])}in ({', '.join(values)})"


def _time(chance: random.Random) -> datetime:
    return START + timedelta(minutes=7 * chance.randrange(-3, 130), microseconds=chance.randrange(-1, 2))


def _day(chance: random.Random) -> date:
    return (START + timedelta(days=chance.randrange(-2, 8))).date()


_VALUES: dict[str, Any] = {
    "id": lambda c: chance_text(c, ["{n}", "{n}L", "{n}.5", "{n}D", "cast({n} as decimal(20, 3))", "'{n}'"]),
    "ts": lambda c: f"timestamp'{_time(c):%Y-%m-%d %H:%M:%S.%f}'",
    "nt": lambda c: f"timestamp_ntz'{_time(c):%Y-%m-%d %H:%M:%S.%f}'",
    "zn": lambda c: f"timestamp'{_time(c):%Y-%m-%d %H:%M:%S.%f}Z'",
    "d": lambda c: chance_text(c, ["date'{d}'", "'{d}'", "timestamp'{d} 05:00:00'", "timestamp_ntz'{d} 05:00:00'"]),
    "name": lambda c: "'" + c.choice(_NAMES).replace("'", "\\'") + "'",
    "x": lambda c: c.choice(["0", "-0.0D", "1.5", "double('nan')", "double('inf')", "0.1", "0.1D", "float(0.1)", "1"]),
    "f": lambda c: c.choice(["0", "1.5", "float('nan')", "0.1", "0.1D", "float(0.1)", "double('-inf')"]),
    "k": lambda c: chance_text(c, ["{k}", "{k}L", "{k}.5", "{k}D", "3000000000"]),
    "flag": lambda c: c.choice(["true", "false"]),
    "price": lambda c: c.choice(["1.5", "-0.25", "1", "1.505", "0.1D", "cast(2 as decimal(38, 10))"]),
    "u": lambda c: f"'{uuid.UUID(int=c.randrange(100) << 100)}'",
    "s.a": lambda c: str(c.randrange(-1, 20)),
    "s.b": lambda c: "'" + c.choice(_NAMES).replace("'", "\\'") + "'",
    "s.at": lambda c: f"timestamp_ntz'{_time(c):%Y-%m-%d %H:%M:%S.%f}'",
}
_LEAVES: list[Any] = [
    _compared(*_VALUES),
    _compared("id", "ts", "NT", "zn", "s.at"),
    _compared("x", "f", "price", "k", "Name"),
    _listed,
    lambda c: f"{c.choice([*_VALUES, 's'])} is {c.choice(['', 'not '])}null",
    lambda c: f"{c.choice(['', 'not '])}isnan({c.choice(['x', 'f'])})",
    lambda c: f"name {c.choice(['', 'not '])}like '{c.choice(['a%', 'a%b', '%b', 'ab', 'a_%', 'a!%%', 'é%', '%'])}'",
    lambda c: f"name like '{c.choice(['a!%%', 'a!_b', '!!%', 'a%'])}' escape '!'",
    lambda c: f"{c.choice(['startswith', 'endswith', 'contains'])}(name, '{c.choice(['a', 'ab', ''])}')",
    lambda c: f"cast({c.choice(['ts', 'nt', 'zn'])} as date) {_operator(c)} date'{_day(c)}'",
    lambda c: f"date_trunc('{c.choice(['hour', 'day', 'week', 'mon'])}', ts) {_operator(c)} timestamp'{_day(c)}'",
    lambda c: f"ts {c.choice(['<', '>='])} timestamp'{_day(c)}' + interval {c.randrange(30)} hours",
    lambda c: f"try_cast({c.choice(['k', 'id', 'x', 'f', 'price'])} as {c.choice(['double', 'string'])}) is not null",
    lambda c: (
        f"cast(k as {c.choice(['double', 'bigint', 'decimal(12, 1)', 'float'])}) {_operator(c)} {c.randrange(-4, 9)}"
    ),
    lambda c: f"id % 7 {_operator(c)} 3",
    lambda c: c.choice(
        ["flag", "not flag", "true", "null and flag", "false", "length(name) > 1", "ts > nt", "x = f", "k + 1 > 2"]
    ),
]


def chance_text(chance: random.Random, forms: list[str]) -> str:
    return chance.choice(forms).format(n=chance.randrange(-2, 130), d=_day(chance), k=chance.randrange(-4, 12))
