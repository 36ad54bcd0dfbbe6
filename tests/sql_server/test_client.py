"""PySpark's own Connect client in a process that has nothing of Moulin's, against the server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sql_server.conftest import Served

pytestmark = pytest.mark.spark
CLIENT = Path(__file__).with_name("client.py")


def run(served: Served, token: str, steps: str) -> dict[str, Any]:
    program = [sys.executable, str(CLIENT), served.url(token), steps]
    done = subprocess.run(program, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def read(served: Served) -> dict[str, Any]:
    return run(served, "reader", "reads")


@pytest.fixture(scope="module")
def changed(served: Served) -> dict[str, Any]:
    return run(served, "writer", "changes")


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("sql", [{"id": 1, "name": "n1"}, {"id": 2, "name": "n2"}]),
        ("table", [{"id": 5, "x": 5.0}]),
        ("count", 5),
        ("columns", [{"id": 1, "z": 2, "y": 4}]),
        ("join", [2, 3, 4, 5]),
        ("groups", [{"k": 0, "a": 3.0}, {"k": 1, "a": 4.5}]),
        ("window", [{"r": 1}]),
        ("distinct", 5),
        ("view", [{"n": 2}]),
        ("frame in text", [{"m": 5}]),
        ("shadow", [{"id": 7}]),
        ("nulls", [{"a": 0, "b": 1}]),
        ("statistics", [{"summary": "max", "id": "5"}]),
        ("pandas", ["n1", "n2", "n3", "n4", "n5"]),
        ("arrow", 5),
        ("empty", 0),
        ("show", "+---+------+----+\n| id|amount|name|\n+---+------+----+\n|  1|   0.5|  n1|\n+---+------+----+\n"),
        ("schema", "struct<id:bigint,amount:double,name:string>"),
        ("catalog", [["shop"], ["orders"], True, ["id", "amount", "name"]]),
        ("local rows", [{"id": 1, "name": "a"}]),
        ("settings", ["UTC", "Asia/Tokyo"]),
        ("version", "4.3.0"),
    ],
)
def test_queries_are_answered_as_by_spark(read: dict[str, Any], step: str, expected: Any) -> None:
    found = read[step]
    if step == "catalog":
        found[1] = [name for name in found[1] if name != "made"]
    assert found == expected


@pytest.mark.parametrize(
    ("step", "error", "reason"),
    [
        ("wrong column", "AnalysisException", "UNRESOLVED_COLUMN"),
        ("wrong table", "AnalysisException", "shop.nothing"),
        ("wrong value", "AnalysisException", "DIVIDE_BY_ZERO"),
        ("file", "SparkException", "Read.data_source"),
        ("own function", "SparkException", "runs no code"),
    ],
)
def test_errors_are_exceptions_of_pyspark(read: dict[str, Any], step: str, error: str, reason: str) -> None:
    assert read[step].startswith(f"{error}: ")
    assert reason in read[step]


def test_explain_does_not_show_where_files_are(read: dict[str, Any]) -> None:
    assert "redacted" in read["explain"]
    assert "file:" not in read["explain"]


def test_tables_are_made_appended_to_and_replaced(served: Served, changed: dict[str, Any]) -> None:
    done = ("create", "append", "save", "insert", "from a table", "overwrite", "replace")
    assert [changed[step] for step in done] == [None] * len(done)
    assert changed["appended"] == [1, 2, 3, 4, 5]
    assert changed["overwritten"] == [1, 2, 9]
    assert changed["replaced"] == [1]
    assert changed["truncate"] == [{"num_deleted_rows": 1}]
    assert served.lake.table("shop.made").scan().count() == 0


def test_what_cannot_be_done_names_the_way_to_do_it(changed: dict[str, Any]) -> None:
    assert "send MERGE as SQL" in changed["merge"]
