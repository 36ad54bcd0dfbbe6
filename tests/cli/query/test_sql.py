"""`moulin sql --engine duckdb`: SQL without Java, and the forms that rows are printed in."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import moulin
from tests.cli.conftest import Done, Run


@pytest.fixture
def lake(run: Run, tmp_path: Path) -> Run:
    with moulin.connect(tmp_path / "lake") as opened:
        opened.create_database("d")
        table = opened.create_table("d.t", [("id", "long"), ("name", "string"), ("s", "struct<a: int>")])
        table.append([{"id": n, "name": f"n;{n}\x1b[31m", "s": {"a": n}} for n in range(3)])
    return run


def duck(run: Run, text: str, *more: str) -> Done:
    return run("sql", "--engine", "duckdb", text, *more)


def test_rows_come_as_a_table_as_json_and_as_csv(lake: Run) -> None:
    text = "select id, sum(id) as n, any_value(s) as s from d.t where id < 2 group by id order by id"
    assert "a=1" in duck(lake, text).out
    whole = [{"id": 0, "n": 0, "s": {"a": 0}}, {"id": 1, "n": 1, "s": {"a": 1}}]
    assert duck(lake, text, "--json").json() == duck(lake, text, "--format", "json").json() == whole
    rows = list(csv.reader(io.StringIO(duck(lake, text, "--format", "csv").out)))
    assert rows == [["id", "n", "s"], ["0", "0", '{"a": 0}'], ["1", "1", '{"a": 1}']]


def test_a_value_is_whole_in_a_pipe_and_printable_in_a_table(lake: Run) -> None:
    assert "\x1b[31m" in duck(lake, "select name from d.t", "--format", "csv").out
    shown = duck(lake, "select name from d.t").out
    assert "\x1b" not in shown
    assert "\\x1b[31m" in shown


def test_files_hold_parquet_arrow_and_text(lake: Run, tmp_path: Path) -> None:
    text, where = "select id, name from d.t order by id", tmp_path / "out"
    assert duck(lake, text, "--format", "parquet", "--output", str(where)).code == 0
    assert pq.read_table(where).column("id").to_pylist() == [0, 1, 2]
    assert duck(lake, text, "--format", "arrow", "--output", str(where), "--limit", "2").code == 0
    with pa.ipc.open_file(where) as file:
        assert file.read_all().column("id").to_pylist() == [0, 1]
    assert duck(lake, text, "--json", "--output", str(where)).out == ""
    assert len(json.loads(where.read_text())["rows"]) == 3
    refused = duck(lake, text, "--format", "parquet")
    assert (refused.code, "--output FILE" in refused.err) == (1, True)
    failed = duck(lake, "select nothing", "--format", "csv", "--output", str(tmp_path / "none"))
    assert (failed.code, list(tmp_path.glob("*none*"))) == (1, [])


def test_statements_are_run_one_after_the_other_up_to_an_error(lake: Run) -> None:
    done = duck(lake, "select ';' as a; -- none;\nselect count(*) as n from d.t;", "--format", "csv")
    assert done.out == "a\n;\nn\n3\n"
    stopped = duck(lake, "select 1 as a; select x from d.t; select 2 as b", "--format", "csv")
    assert (stopped.code, stopped.out) == (1, "a\n1\n")
    assert stopped.err.startswith("Error: DuckDB refuses the statement: Binder Error:")
    assert stopped.err.count("\n") == 1


def test_older_versions_are_tables_of_a_function(lake: Run) -> None:
    found = duck(lake, "select count(*) as n from moulin_table('d.t', version := 2)", "--json")
    assert found.json() == [{"n": 0}]
    missing = duck(lake, "from moulin_table('d.x')")
    assert (missing.code, missing.err) == (1, "Error: Table d.x does not exist.\n")


def test_a_plan_is_printed_as_it_is_drawn(lake: Run) -> None:
    drawn = duck(lake, "explain select name from d.t where id = 1").out
    assert any("READ_PARQUET" in line for line in drawn.splitlines())
    assert "\\n" not in drawn


def test_a_statement_that_would_change_the_lake_says_who_can(lake: Run) -> None:
    for text in ("insert into d.t values (1, 'a', null)", "delete from d.t", "update d.t set id = 1"):
        assert "It changes no table of the lake: use Spark or Python." in duck(lake, text).err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "oracle", "select 1"], "Unknown engine 'oracle'"),
        (["--engine", "duckdb", "--format", "xml", "select 1"], "Unknown format 'xml'"),
        (["--engine", "duckdb", "--safe", "select 1"], "--safe needs --engine spark"),
        (["--engine", "duckdb", " -- nothing"], "contains no statement"),
        (["--engine", "duckdb", "select 'a"], "ends inside a quote"),
        (["--engine", "duckdb", "--output", "x", "select 1; select 2"], "there are 2"),
    ],
)
def test_wrong_input_is_one_sentence(lake: Run, words: list[str], said: str) -> None:
    done = lake("sql", *words)
    assert done.code == 1
    assert said in done.err
