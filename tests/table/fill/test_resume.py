"""Fills that were killed are completed by a worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import moulin
from moulin.cli.main import app
from moulin.lake import Lake
from moulin.model.filling import fillings_of
from moulin.model.schema.type_reader import parse_type
from moulin.table.fill.fill import Filler, begin
from moulin.table.fill.resume import resume_fills
from moulin.table.table import Table


def killed(lake: Lake, name: str, key: list[str]) -> Table:
    table = lake.create_table(name, [("id", "long", False), ("x", "double")], primary_key=key)
    table.append([{"id": n, "x": n / 2} for n in range(10)])
    begin(table._context, table.state, table._keyed(), [("y", parse_type("double"))], ["x"], "x * 2")
    table.append([{"id": 10, "x": 5.0}])
    return table


def pending(table: Table) -> set[str]:
    state = table.state()
    return {*fillings_of(state.properties, state.schema)}


def test_a_worker_completes_pending_columns(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("d")
        tables = [killed(lake, "d.e", []), killed(lake, "d.k", ["id"])]
        again = tables[0]
        again.add_column("z", "double", from_sql="x")
        begin(again._context, again.state, None, [("z", parse_type("double"))], ["x"], "x + 1", again=True)
        begin(again._context, again.state, None, [("f", parse_type("double"))], ["x"], None)
        for table in tables:
            table.close()
        command = ["--lake", str(tmp_path / "lake"), "worker", "--once", "--no-spark", "--json"]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        said = json.loads("[" + done.stdout.replace("}\n{", "},{") + "]")
        assert {(one["table"], one["column"]) for one in said} == {("d.e", "y"), ("d.e", "z"), ("d.k", "y")}
        for name in ("d.e", "d.k"):
            rows = lake.table(name).scan().to_pylist()
            assert len(rows) == 11
            assert all(row["y"] == row["x"] * 2 for row in rows)
        assert all(row["z"] == row["x"] + 1 for row in lake.table("d.e").scan().to_pylist())
        assert pending(lake.table("d.e")) == {"f"}  # whose values only its caller has
        assert list(resume_fills(lake.context)) == []


@pytest.mark.parametrize("key", [[], ["id"]], ids=["event", "keyed"])
def test_a_call_whose_column_another_completed_returns(
    tmp_path: Path, key: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("d")
        table = killed(lake, "d.t", key)
        commit = Filler._commit

        def late(self: Filler, *given: Any) -> None:
            monkeypatch.setattr(Filler, "_commit", commit)
            with monkeypatch.context() as patch:
                patch.setattr("moulin.table.fill.resume._is_worked_at", lambda context, state: False)
                patch.setattr("moulin.table.fill.fill._PATIENCE_SECONDS", 0.0)
                assert [one.column for one in resume_fills(lake.context)] == ["y"]
            commit(self, *given)

        monkeypatch.setattr(Filler, "_commit", late)
        done = table.add_column("y", "double", from_sql="x * 2")
        assert done.version == table.version
        assert all(row["y"] == row["x"] * 2 for row in table.scan().to_pylist())
