"""`moulin branch`, and every other command on a branch."""

from __future__ import annotations

from pathlib import Path

import pytest

from moulin.cli.commands import COMMANDS
from tests.cli.conftest import Run


@pytest.fixture
def lake(run: Run, tmp_path: Path) -> Path:
    run("init")
    run("db", "create", "shop")
    run("table", "create", "shop.orders", "id:long", "amount:double")
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": 1, "amount": 2.5}\n{"id": 2, "amount": 5.0}\n')
    assert run("append", "shop.orders", str(rows)).code == 0
    return tmp_path / "lake"


def test_a_branch_is_made_listed_dropped_and_brought_back(run: Run, lake: Path) -> None:
    made = run("branch", "create", "exp", "--expires", "7d", "--json").json()
    assert (made["name"], made["tables"], made["opened"]) == ("exp", 1, 0)
    assert made["expires"] is not None
    version = str(made["version"] - 1)
    assert run("branch", "create", "old", "--at", version, "--table", "shop.orders", "--json").json()["tables"] == 1
    assert [one["name"] for one in run("branch", "list", "--json").json()] == ["exp", "old"]
    assert "exp" in run("branch", "list").out
    assert run("branch", "drop", "old").code == 0
    assert [one["name"] for one in run("branch", "list", "--json").json()] == ["exp"]
    assert [one["name"] for one in run("branch", "list", "--all", "--json").json()] == ["exp", "old"]
    assert run("branch", "resurrect", "old", "--json").json()["name"] == "old"
    assert "already exists" in run("branch", "create", "exp").err
    assert "Branch 'nope' does not exist" in run("branch", "drop", "nope").err
    assert "cannot name a branch" in run("branch", "create", "exp/../x").err
    assert "is not a time" in run("branch", "create", "x", "--expires", "soon").err


def test_commands_work_on_a_branch_and_main_stays_as_it_is(run: Run, lake: Path, tmp_path: Path) -> None:
    run("branch", "create", "exp")
    on = Path(f"{lake}@exp")
    assert run("delete", "shop.orders", "--where", "id = 1", lake=on).code == 0
    assert [row["id"] for row in run("scan", "shop.orders", "--json", lake=on).json()] == [2]
    assert [row["id"] for row in run("scan", "shop.orders", "--json").json()] == [1, 2]
    assert [row["id"] for row in run("scan", "shop.orders@exp", "--json").json()] == [2]
    assert run("db", "create", "more", lake=on).code == 0
    assert [row["name"] for row in run("db", "list", "--json", lake=on).json()] == ["more", "shop"]
    assert [row["name"] for row in run("db", "list", "--json").json()] == ["shop"]
    assert run("table", "create", "more.t", "id:long", lake=on).code == 0
    assert [row["name"] for row in run("table", "list", "more", "--json", lake=on).json()] == ["t"]
    assert run("compact", "shop.orders", lake=on).code == 0
    for words in (["table", "show", "shop.orders"], ["table", "history", "shop.orders"]):
        assert run(*words, lake=on).code == 0
    assert run("table", "show", "shop.orders", "--json", lake=on).json()["name"] == "shop.orders"
    assert run("table", "export", "shop.orders", str(tmp_path / "out"), lake=on).code == 0
    assert run("check").code == 0
    assert run("gc").code == 0
    text = "select count(*) as n from shop.orders"
    assert run("sql", "--engine", "duckdb", "--json", text, lake=on).json() == [{"n": 1}]
    assert run("sql", "--engine", "duckdb", "--json", f"{text}@exp").json() == [{"n": 1}]
    assert run("sql", "--engine", "duckdb", "--json", 'select count(*) as n from "shop@exp".orders').json() == [
        {"n": 1}
    ]
    assert run("sql", "--engine", "duckdb", "--json", text).json() == [{"n": 2}]


def test_a_missing_branch_is_one_sentence(run: Run, lake: Path) -> None:
    for words in (["db", "list"], ["scan", "shop.orders"], ["sql", "--engine", "duckdb", "select 1"]):
        done = run(*words, lake=Path(f"{lake}@nope"))
        assert (done.code, done.err.count("\n")) == (1, 1)
        assert "Branch 'nope' does not exist" in done.err
    assert "Branch 'nope' does not exist" in run("scan", "shop.orders@nope").err
    assert "contains no lake" in run("db", "list", lake=Path(f"{lake}-other@exp")).err


def test_commands_about_the_whole_lake_take_no_branch(run: Run, lake: Path) -> None:
    run("branch", "create", "exp")
    for name in (name for name, entry in COMMANDS.items() if entry.whole):
        done = run(name, lake=Path(f"{lake}@exp"))
        assert (done.code, done.out) == (1, ""), name
        assert "with all of its branches: remove @exp" in done.err


def test_a_branch_is_compared_and_published(run: Run, lake: Path) -> None:
    run("branch", "create", "exp")
    on = Path(f"{lake}@exp")
    assert run("branch", "diff", "exp", "--json").json() == []
    run("delete", "shop.orders", "--where", "id = 1", lake=on)
    run("table", "create", "shop.made", "id:long", lake=on)
    found = run("branch", "diff", "exp", "--json").json()
    assert [(one["table"], one["kind"], one["deleted"]) for one in found] == [
        ("shop.made", "created", 0),
        ("shop.orders", "changed", 1),
    ]
    assert "shop.orders" in run("branch", "diff", "exp").out
    would = run("branch", "publish", "exp", "--dry-run", "--json").json()
    assert would["dry_run"]
    assert [row["id"] for row in run("scan", "shop.orders", "--json").json()] == [1, 2]
    done = run("branch", "publish", "exp", "--json").json()
    assert [one["table"] for one in done["tables"]] == ["shop.made", "shop.orders"]
    assert [row["id"] for row in run("scan", "shop.orders", "--json").json()] == [2]
    assert [row["name"] for row in run("table", "list", "shop", "--json").json()] == ["made", "orders"]
    assert "Branch 'exp' does not exist" in run("branch", "publish", "exp").err
