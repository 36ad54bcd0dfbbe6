"""Statements in DuckDB read the segments that the catalog says may match, and answer as if they read all of them."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from unittest import mock
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moulin
from moulin.duck import select, source
from moulin.lake import Lake
from moulin.table.table import Table

HOURS = [("ts", "timestamp"), ("id", "long"), ("name", "string"), ("amount", "double")]
START = datetime(2026, 1, 1)
ONE_HOUR = "ts >= '2026-01-01 05:00' AND ts < '2026-01-01 06:00'"


@pytest.fixture(autouse=True)
def every_table_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moulin.duck.views._WRITTEN_OUT", 0)


@pytest.fixture
def hours(lake: Lake) -> Table:
    """Twelve segments, one of each hour, ten rows each."""
    table = lake.create_table("d.t", HOURS, event_time="ts", partition_by=["hour(ts)"])
    table.append(
        [{"ts": START + timedelta(minutes=6 * n), "id": n, "name": f"n{n:03}", "amount": float(n)} for n in range(120)]
    )
    return table


@contextmanager
def counted() -> Iterator[list[int]]:
    """How many segments each SELECT that is written in the block has."""
    found: list[int] = []

    def write(state: Any, segments: Any, *rest: Any) -> str:
        found.append(len(segments))
        return select.select_text(state, segments, *rest)

    with mock.patch.object(source, "select_text", write):
        yield found


def read(connection: Any, text: str, *parameters: Any) -> tuple[list[Any], list[int]]:
    with counted() as segments:
        return connection.execute(text, *parameters).fetchall(), segments


@pytest.mark.parametrize(
    ("condition", "rows", "segments"),
    [
        (ONE_HOUR, 10, 1),
        ("ts::DATE = '2026-01-01' AND id < 10", 10, 1),
        ("ts BETWEEN '2026-01-01 05:00' AND '2026-01-01 06:00'", 11, 2),
        ("id = 7", 1, 1),
        ("id = 7 OR name = 'n055'", 2, 2),
        ("id IN (1, 2, 35)", 3, 2),
        ("id IN (1, 2, 35, 36, 37, 38, 39, 118)", 8, 3),
        ("id IN (1, 2, 35, 36, 37, 38, 39, 118) AND amount > 30", 6, 2),
        ("name LIKE 'n01%'", 10, 1),
        ("name IS NULL", 0, 0),
        ("115 < id", 4, 1),
        ("amount >= 119 AND NOT (id = 3)", 1, 1),
        ("id % 1000 = 7", 1, 12),
        ("id = 7 OR length(name) = 3", 1, 12),
    ],
)
def test_a_filter_reads_the_segments_that_may_match(
    lake: Lake, hours: Table, condition: str, rows: int, segments: int
) -> None:
    found, read_segments = read(lake.duckdb(), f"SELECT count(*) FROM d.t WHERE {condition}")
    assert (found, read_segments) == ([(rows,)], [segments])


STATEMENTS: dict[str, str] = {
    "order": f"SELECT id FROM d.t WHERE {ONE_HOUR} ORDER BY id DESC LIMIT 3",
    "group": f"SELECT name, count(*) FROM d.t WHERE {ONE_HOUR} GROUP BY ALL HAVING count(*) > 0",
    "view": f"SELECT id FROM mine WHERE {ONE_HOUR}",
    "explain": f"EXPLAIN SELECT id FROM d.t WHERE {ONE_HOUR}",
    "explain analyze": f"explain (analyze, format json) SELECT id FROM d.t WHERE {ONE_HOUR}",
    "create": f"CREATE OR REPLACE TABLE own AS SELECT * FROM d.t WHERE {ONE_HOUR}",
    "insert": f"INSERT INTO own SELECT * FROM d.t WHERE {ONE_HOUR}",
    "older": f"SELECT id FROM moulin_table('d.t', version := 3) WHERE {ONE_HOUR}",
    "variable": "SELECT id FROM d.t WHERE id = getvariable('wanted')",
    "second": "SELECT 1; SELECT id FROM d.t WHERE id = 7",
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_of_every_kind_read_one_segment(lake: Lake, hours: Table, name: str) -> None:
    connection = lake.duckdb()
    connection.execute("CREATE VIEW mine AS SELECT * FROM d.t WHERE id >= 0; SET VARIABLE wanted = 57")
    connection.execute("CREATE TABLE own AS SELECT * FROM d.t LIMIT 0")
    assert read(connection, STATEMENTS[name])[1] == [1]
    assert read(connection.cursor(), STATEMENTS["order"])[1] == [1]


def test_each_mention_of_a_table_reads_what_any_of_them_asks_for(lake: Lake, hours: Table) -> None:
    text = "SELECT count(*) FROM d.t a JOIN d.t b ON a.id = b.id + 1 WHERE a.id BETWEEN 8 AND 12 AND b.id < 30"
    found, segments = read(lake.duckdb(), text)
    assert found == [(5,)]
    assert segments == [3, 3]


def test_values_that_are_passed_apart_prune_nothing_and_the_others_do(lake: Lake, hours: Table) -> None:
    connection = lake.duckdb()
    assert read(connection, f"SELECT id FROM d.t WHERE id = ? AND {ONE_HOUR}", [51]) == ([(51,)], [1])
    assert read(connection, "SELECT id FROM d.t WHERE id = ?", [7]) == ([(7,)], [12])
    connection.execute("PREPARE p AS SELECT id FROM d.t WHERE id = $1")
    assert [connection.execute(f"EXECUTE p({n})").fetchall() for n in (7, 70)] == [[(7,)], [(70,)]]
    connection.execute("CREATE TABLE own(id BIGINT)")
    connection.executemany("INSERT INTO own SELECT id FROM d.t WHERE id = ?", [[3], [99], [2**40]])
    assert connection.execute("FROM own ORDER BY id").fetchall() == [(3,), (99,)]


def test_relations_read_what_they_ask_for_when_they_are_run(lake: Lake, hours: Table) -> None:
    connection = lake.duckdb()
    with counted() as segments:
        few = connection.sql("SELECT id, name FROM d.t WHERE id < 15")
        assert few.columns == ["id", "name"]
    assert segments == []
    with counted() as segments:
        assert few.filter("id > 12").order("id").fetchall() == [(13, "n013"), (14, "n014")]
        assert few.union(connection.sql("SELECT id, name FROM d.t WHERE id = 77")).count("*").fetchall() == [(16,)]
    assert segments == [1, 3, 3]
    with pytest.raises(duckdb.Error, match="with execute"):
        connection.executemany("CREATE OR REPLACE TABLE own AS FROM d.t", [[], []])


def test_a_variable_turns_pruning_off(lake: Lake, hours: Table) -> None:
    connection = lake.duckdb()
    connection.execute("SET VARIABLE moulin_pruning = false")
    assert read(connection, f"SELECT count(*) FROM d.t WHERE {ONE_HOUR}") == ([(10,)], [12])
    connection.execute("RESET VARIABLE moulin_pruning")
    assert read(connection, f"SELECT count(*) FROM d.t WHERE {ONE_HOUR}") == ([(10,)], [1])


def test_settings_of_the_connection_have_their_meaning(lake: Lake) -> None:
    table = lake.create_table("d.t", [("ts", "timestamptz"), ("name", "string")], partition_by=["hour(ts)"])
    rows = [{"ts": (START + timedelta(hours=n)).replace(tzinfo=UTC), "name": "Ab" if n % 2 else "cd"} for n in range(9)]
    table.append(rows)
    connection = lake.duckdb()
    connection.execute("SET TimeZone = 'America/New_York'")
    assert read(connection, "SELECT count(*) FROM d.t WHERE ts = '2026-01-01 00:00'") == ([(1,)], [1])
    connection.execute("SET default_collation = 'nocase'")
    assert read(connection, "SELECT count(*) FROM d.t WHERE name = 'AB'")[0] == [(4,)]
    assert read(connection, "SELECT count(*) FROM d.t WHERE ts < now()")[0] == [(9,)]


def test_a_statement_that_fails_leaves_the_next_one_right(lake: Lake, hours: Table) -> None:
    connection = lake.duckdb()
    for text in (
        "SELECT nothing FROM d.t WHERE id = 7",
        "SELECT error('x') FROM d.t WHERE id = 7",
        "SELEC",
        "FROM d.u",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(text).fetchall()
        assert read(connection, "SELECT id FROM d.t WHERE id = 7") == ([(7,)], [1])
        connection.execute("BEGIN")
        with pytest.raises(duckdb.Error):
            connection.execute(text).fetchall()
        connection.execute("ROLLBACK")
        assert connection.execute("SELECT count(*) FROM d.t").fetchall() == [(120,)]


def test_cursors_in_many_threads_read_each_what_they_ask_for(lake: Lake, hours: Table) -> None:
    connection = lake.duckdb()

    def run(number: int) -> list[Any]:
        cursor = connection.cursor()
        texts = [f"SELECT count(*), min(id) FROM d.t WHERE id BETWEEN {n} AND {n + number}" for n in range(0, 100, 7)]
        return [cursor.execute(text).fetchall() for text in texts]

    with ThreadPoolExecutor(4) as threads:
        for number, found in enumerate(threads.map(run, range(8))):
            assert found == [[(number + 1, n)] for n in range(0, 100, 7)]


def test_objects_of_python_may_be_joined(lake: Lake, hours: Table) -> None:
    mine = pa.table({"id": [3, 77, 999]})
    connection = lake.duckdb()
    with counted() as segments:
        found = connection.execute("SELECT count(*) FROM mine JOIN d.t USING (id) WHERE t.id < 15").fetchall()
    assert (found, segments, len(mine)) == ([(1,)], [2], 3)


def test_deleted_rows_are_left_out_of_the_segments_that_are_asked_for(lake: Lake, hours: Table) -> None:
    hours.delete_where("id in (3, 51, 52, 61, 77)")
    connection = lake.duckdb()
    assert read(connection, "SELECT count(*) FROM d.t WHERE id BETWEEN 45 AND 64") == ([(17,)], [3])
    assert read(connection, "SELECT count(*) FROM d.t WHERE id BETWEEN 50 AND 59") == ([(8,)], [1])
    assert read(connection, "SELECT count(*) FROM d.t WHERE id BETWEEN 20 AND 29") == ([(10,)], [1])


def test_a_secondary_index_spares_segments(lake: Lake) -> None:
    table = lake.create_table("d.t", [("id", "long"), ("name", "string")])
    for n in range(6):
        table.append([{"id": n, "name": "a"}, {"id": n, "name": f"n{n}"}, {"id": n, "name": "z"}])
    table.create_index("name")
    assert read(lake.duckdb(), "SELECT id FROM d.t WHERE name = 'n4'") == ([(4,)], [1])


# Any statement over any table has the same answer with pruning and without

KINDS: dict[str, Callable[[random.Random], Any]] = {
    "boolean": lambda r: r.random() < 0.5,
    "int": lambda r: r.choice([-(2**31), 2**31 - 1, r.randrange(-20, 20)]),
    "long": lambda r: r.choice([-(2**63), 2**63 - 1, r.randrange(-20, 20)]),
    "float": lambda r: r.choice([float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 0.5, r.randrange(-20, 20) / 4]),
    "double": lambda r: r.choice([float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 0.1, r.randrange(-20, 20) / 3]),
    "decimal(6, 2)": lambda r: Decimal(r.randrange(-2000, 2000)) / 100,
    "decimal(30, 3)": lambda r: Decimal(r.randrange(-(10**20), 10**20)) / 1000,
    "date": lambda r: date(1970, 1, 1) + timedelta(days=r.randrange(-40, 40)),
    "timestamp": lambda r: datetime(1970, 1, 1) + timedelta(seconds=r.randrange(-90, 90), microseconds=r.randrange(3)),
    "timestamptz": lambda r: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=r.randrange(-90, 90)),
    "timestamp_ns": lambda r: moulin.NanoDatetime.of(r.randrange(-3000, 3000), zoned=False),
    "timestamptz_ns": lambda r: moulin.NanoDatetime.of(r.randrange(-3000, 3000), zoned=True),
    "string": lambda r: r.choice(["", "a", "A", "ab", "a\x00b", "a%", "b'b", "é", "z", "\U0001f600", "a" * 40 + "b"]),
    "uuid": lambda r: UUID(int=r.choice([0, 1, 2**127, 2**128 - 1, r.randrange(2**128)])),
}


def literal(r: random.Random, kind: str) -> str:
    value = KINDS[kind](r)
    if isinstance(value, moulin.NanoDatetime):
        nanos = value.value
        return f"make_timestamp_ns({nanos})" if kind == "timestamp_ns" else f"make_timestamptz({nanos // 1000})"
    if isinstance(value, float | int | Decimal) and not isinstance(value, bool):
        plain = f"'{value}'::DOUBLE" if isinstance(value, float) else str(value)
        return r.choice([plain, f"({plain})::DOUBLE", "NULL", str(r.randrange(-20, 20)), "2.5"])
    return r.choice([_quoted(value)] * 9 + ["NULL"])


def _quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''").replace("\x00", "' || chr(0) || '") + "'"


def leaf(r: random.Random, columns: dict[str, str]) -> str:
    name, kind = r.choice(list(columns.items()))
    operator = r.choice(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
    one, two = literal(r, kind), literal(r, kind)
    many = ", ".join(literal(r, kind) for _ in range(r.choice([1, 2, 3, 7, 12])))
    return r.choice(
        [
            f"{name} {operator} {one}",
            f"{one} {operator} {name}",
            f"{name} BETWEEN {one} AND {two}",
            f"{name} IN ({many})",
            f"{name} NOT IN ({many})",
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
            f"{name}::VARCHAR LIKE '{r.choice(['a', '1', '-', ''])}%'",
            f"CASE WHEN {name} = {one} THEN true ELSE {name} > {two} END",
            f"coalesce({name}, {one}) = {two}",
            f"{name} = (SELECT min({name}) FROM d.t)",
        ]
        + ([name] if kind == "boolean" else [])
        + ([f"{name} LIKE 'a%'", f"starts_with({name}, 'ab')", f"{name} ILIKE 'A%'"] if kind == "string" else [])
        + ([f"date_trunc('hour', {name}) >= {one}", f"{name}::DATE = '1970-01-01'"] if "time" in kind else [])
    )


def condition(r: random.Random, columns: dict[str, str], depth: int = 0) -> str:
    if depth > 2 or r.random() < 0.35:
        return leaf(r, columns)
    parts = [condition(r, columns, depth + 1) for _ in range(r.choice([2, 2, 3]))]
    joined = "(" + r.choice([" AND ", " OR "]).join(parts) + ")"
    return f"NOT {joined}" if r.random() < 0.2 else joined


SHAPES = (
    "SELECT * FROM d.t WHERE {0}",
    "SELECT count(*), min(k), max(k) FROM d.t WHERE {0}",
    "SELECT k FROM d.t WHERE {0} ORDER BY k LIMIT 5",
    "WITH c AS (SELECT * FROM d.t WHERE {0}) SELECT x.k, y.k FROM c x JOIN c y USING (k) WHERE x.k > 3",
    "WITH c AS MATERIALIZED (SELECT * FROM d.t WHERE {0}) SELECT k FROM c WHERE k > 3 UNION ALL SELECT -k FROM c",
    "SELECT t.k, u.k FROM d.t LEFT JOIN d.t u ON t.k = u.k + 1 AND ({0}) WHERE t.k > 3",
    "SELECT t.k, u.k FROM (FROM d.t WHERE {0}) t FULL JOIN (FROM d.t WHERE {1}) u ON t.k = u.k",
    "SELECT k FROM d.t o WHERE EXISTS (SELECT 1 FROM d.t i WHERE i.k = o.k + 1 AND ({0}))",
    "SELECT k FROM d.t WHERE k NOT IN (SELECT k FROM d.t WHERE {0})",
    "SELECT k, rank() OVER (ORDER BY k) AS r FROM d.t WHERE {0} QUALIFY r > 1",
    "SELECT k FROM d.t WHERE {0} EXCEPT SELECT k FROM d.t WHERE {1}",
    "SELECT k % 3 AS g, count(*) FROM d.t GROUP BY g HAVING max(k) > 2 AND count(*) FILTER ({0}) > 0",
    "SELECT k FROM mine WHERE {0}",
    "SELECT k FROM d.v WHERE {0}",
)


def filled(r: random.Random, lake: Lake) -> dict[str, str]:
    """A table with segments of every age; returns its columns with their types."""
    columns = {f"c{n}": kind for n, kind in enumerate(r.sample(list(KINDS), 5))}
    partition = [r.choice(list(columns))] if r.random() < 0.3 else []
    table = lake.create_table("d.t", [("k", "long"), *columns.items()], partition_by=partition)
    for number in range(r.randrange(2, 7)):
        table.append([_row(r, number * 10 + n, columns) for n in range(r.randrange(1, 8))])
        if r.random() < 0.3:
            table.delete_where(f"k in ({r.randrange(9)}, {r.randrange(60)}, {number * 10})")
        if r.random() < 0.2:
            columns[f"added{number}"] = r.choice(list(KINDS))
            table.add_column(f"added{number}", columns[f"added{number}"])
        plain = [name for name in columns if name not in partition]
        if r.random() < 0.2:
            old = r.choice(plain)
            table.rename_column(old, f"renamed{number}")
            columns[f"renamed{number}"] = columns.pop(old)
        elif widened := [name for name in plain if columns[name] in ("int", "float")]:
            columns[widened[0]] = {"int": "long", "float": "double"}[columns[widened[0]]]
            table.widen_column(widened[0], columns[widened[0]])
    lake.create_view("d.v", ["t"])
    return columns


def _row(r: random.Random, k: int, columns: dict[str, str]) -> dict[str, Any]:
    return {"k": k, **{name: None if r.random() < 0.15 else KINDS[kind](r) for name, kind in columns.items()}}


FAILED = "a value cannot be cast"


def answers(connection: Any, text: str) -> list[str]:
    try:
        return sorted(map(str, connection.execute(text).fetchall()))
    except (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.BinderException):
        return [FAILED]


@given(st.integers(0, 2**32))
@settings(max_examples=5, deadline=None)
def test_any_statement_has_the_answer_that_it_has_without_pruning(seed: int) -> None:
    r = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, moulin.connect(f"{folder}/lake") as lake:
        lake.create_database("d")
        columns = filled(r, lake)
        connection = lake.duckdb()
        connection.execute("CREATE VIEW mine AS SELECT * FROM d.t WHERE k <> 4")
        for _ in range(25):
            text = r.choice(SHAPES).format(condition(r, columns), condition(r, columns))
            connection.execute("SET VARIABLE moulin_pruning = false")
            without = answers(connection, text)
            connection.execute("RESET VARIABLE moulin_pruning")
            found = answers(connection, text)
            assert found == without or without == [FAILED], text


@given(st.integers(0, 2**32))
@settings(max_examples=3, deadline=None)
def test_conditions_that_a_scan_takes_have_the_rows_of_the_scan(seed: int) -> None:
    r = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, moulin.connect(f"{folder}/lake") as lake:
        lake.create_database("d")
        columns = filled(r, lake)
        connection, table = lake.duckdb(), lake.table("d.t")
        simple = {name: kind for name, kind in columns.items() if kind in ("int", "long", "boolean", "string", "date")}
        for _ in range(20):
            text = " AND ".join(_plain(r, simple or {"k": "long"}) for _ in range(2))
            wanted = sorted(row["k"] for row in table.scan(["k"], where=text).to_pylist())
            assert sorted(k for (k,) in connection.execute(f"SELECT k FROM d.t WHERE {text}").fetchall()) == wanted


def _plain(r: random.Random, columns: dict[str, str]) -> str:
    name, kind = r.choice(list(columns.items()))
    value = KINDS[kind](r)
    shown = str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''").replace("\x00", "") + "'"
    shown = f"date {shown}" if kind == "date" else shown
    test = r.choice([f"{name} {r.choice(['=', '<>', '<', '>='])} {shown}", f"{name} IS NULL"])
    return f"({test} OR k = {r.randrange(60)})"
