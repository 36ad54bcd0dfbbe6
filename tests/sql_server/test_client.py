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


def run(served: Served, token: str, steps: str, python: str = sys.executable) -> dict[str, Any]:
    """What a client in a process of its own found."""
    if steps == "changes" and any(table.name == "made" for table in served.lake.tables("shop")):
        served.lake.drop_table("shop.made", immediate=True)
    program = [python, str(CLIENT), served.url(token), steps]
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


ANSWERS: dict[str, Any] = {
    "sql": [{"id": 1, "name": "n1"}, {"id": 2, "name": "n2"}],
    "table": [{"id": 5, "x": 5.0}],
    "count": 5,
    "columns": [{"id": 1, "z": 2, "y": 4}],
    "join": [2, 3, 4, 5],
    "groups": [{"k": 0, "a": 3.0}, {"k": 1, "a": 4.5}],
    "window": [{"r": 1}],
    "distinct": 5,
    "view": [{"n": 2}],
    "frame in text": [{"m": 5}],
    "shadow": [{"id": 7}],
    "nulls": [{"a": 0, "b": 1}],
    "statistics": [{"summary": "max", "id": "5"}],
    "pandas": ["n1", "n2", "n3", "n4", "n5"],
    "arrow": 5,
    "empty": 0,
    "show": "+---+------+----+\n| id|amount|name|\n+---+------+----+\n|  1|   0.5|  n1|\n+---+------+----+\n",
    "schema": "struct<id:bigint,amount:double,name:string>",
    "catalog": [["shop"], ["orders"], True, ["id", "amount", "name"]],
    "local rows": [{"id": 1, "name": "a"}],
    "settings": ["UTC", "Asia/Tokyo"],
    "version": "4.3.0",
}
ERRORS = {
    "wrong column": ("AnalysisException", "UNRESOLVED_COLUMN"),
    "wrong table": ("AnalysisException", "shop.nothing"),
    "wrong value": ("AnalysisException", "DIVIDE_BY_ZERO"),
    "file": ("SparkException", "Read.data_source"),
    "own function": ("SparkException", "runs no code"),
    "change by text": ("SparkException", "can only read"),
    "change by rows": ("SparkException", "can only read"),
    "change by merge": ("SparkException", "can only read"),
}


def check_answer(read: dict[str, Any], step: str) -> None:
    found = read[step]
    if step == "catalog":
        found[1] = [name for name in found[1] if name != "made"]
    assert found == ANSWERS[step]


def check_error(read: dict[str, Any], step: str) -> None:
    error, reason = ERRORS[step]
    assert read[step].startswith(f"{error}: ")
    assert reason in read[step]


def check_changes(changed: dict[str, Any]) -> None:
    done = ("create", "append", "save", "insert", "from a table", "overwrite", "replace")
    assert [changed[step] for step in done] == [None] * len(done)
    assert changed["appended"] == [1, 2, 3, 4, 5]
    assert changed["overwritten"] == [1, 2, 9]
    assert changed["replaced"] == [1]
    assert changed["truncate"] == [{"num_deleted_rows": 1}]
    assert changed["merge as text"] == [{"num_inserted_rows": 2}]
    assert changed["merge"] == [{"id": 1, "name": "FIRST"}, {"id": 2, "name": "SECOND"}]
    left = [{"id": 2, "name": "SECONDb"}, {"id": 3, "name": "left"}]
    assert changed["merge by clauses"] == [*left, {"id": 9, "name": "new"}]
    assert changed["merge with itself"] == left
    assert "ADD COLUMN" in changed["merge with new columns"]
    assert "call whenMatched" in changed["merge that does nothing"]
    assert "More than one source row" in changed["merge that matches twice"]


@pytest.mark.parametrize("step", ANSWERS)
def test_queries_are_answered_as_by_spark(read: dict[str, Any], step: str) -> None:
    check_answer(read, step)


@pytest.mark.parametrize("step", ERRORS)
def test_errors_are_exceptions_of_pyspark(read: dict[str, Any], step: str) -> None:
    check_error(read, step)


def test_explain_does_not_show_where_files_are(read: dict[str, Any]) -> None:
    assert "redacted" in read["explain"]
    assert "file:" not in read["explain"]


def test_tables_are_made_appended_to_replaced_and_merged_into(served: Served, changed: dict[str, Any]) -> None:
    check_changes(changed)
    assert served.lake.table("shop.made").scan().count() == 2
