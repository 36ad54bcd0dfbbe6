"""Indexes, look-ups and the inside of a table on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import moulin
from tests.cli.conftest import Run


@pytest.fixture
def stock(run: Run, tmp_path: Path) -> Run:
    """Two tables: one keyed by a number, one by a word and a day."""
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.stock", [("id", "long", False), ("name", "string")], primary_key=["id"])
        for part in range(3):
            table.append([{"id": n, "name": f"n{n:02}"} for n in range(part, 30, 3)])
        days = lake.create_table(
            "shop.days", [("shop", "string", False), ("day", "date", False), ("n", "int")], primary_key=["shop", "day"]
        )
        days.append([{"shop": "a", "day": "2024-01-01", "n": 1}])
        lake.create_table("shop.events", [("id", "long")])
    return run


def test_an_index_is_made_listed_used_and_dropped(stock: Run) -> None:
    assert "shop.stock has no index." in stock("index", "list", "shop.stock").out
    done = stock("index", "create", "shop.stock", "name", "--kind", "bloom", "--json")
    assert (done.code, done.json()["index"], done.json()["covered"]) == (0, "name_bloom", 3)
    assert "Index by_name covers 3 segments" in stock("index", "create", "shop.stock", "name", "--name", "by_name").out
    assert [row["index"] for row in stock("index", "list", "shop.stock", "--json").json()] == ["by_name", "name_bloom"]
    assert all(row["created"] for row in stock("index", "list", "shop.stock", "--json").json())
    listed = stock("index", "list", "shop.stock", "--json").json()
    assert {(one["covered"], one["segments"]) for one in listed} == {(3, 3)}
    assert stock("scan", "shop.stock", "--where", "name = 'n07'", "--json").json() == [{"id": 7, "name": "n07"}]
    assert stock("index", "update", "shop.stock").code == 0
    assert stock("index", "drop", "shop.stock", "by_name").code == 0
    assert len(stock("index", "list", "shop.stock", "--json").json()) == 1
    for words in (("create", "shop.stock", "nmae"), ("drop", "shop.stock", "name_blom")):
        failed = stock("index", *words)
        assert failed.code == 1
        assert "Did you mean" in failed.err


def test_a_keyed_table_is_made_filled_and_looked_up(stock: Run) -> None:
    made = stock(
        "table", "create", "shop.carts", "day:date!", "id:long!", "--primary-key", "id", "--primary-key", "day"
    )
    assert made.code == 0, made.err
    assert stock("table", "show", "shop.carts", "--json").json()["primary_key"] == ["id", "day"]
    unknown = stock("table", "create", "shop.other", "id:long!", "--primary-key", "idd")
    assert (unknown.code, "idd" in unknown.err) == (1, True)


def test_show_draws_levels_regions_and_indexes(stock: Run) -> None:
    stock("index", "create", "shop.stock", "name")
    out = stock("table", "show", "shop.stock").out
    for part in ("Levels", "█", "Regions", "Indexes", "name_btree", "covered"):
        assert part in out
    shown = stock("table", "show", "shop.stock", "--json").json()
    assert [(level["level"], level["files"], level["live"]) for level in shown["levels"]] == [(0, 3, 30)]
    assert (shown["read_amplification"], shown["write_amplification"]) == (3, 1.0)
    assert [(index["index"], index["covered"], index["segments"]) for index in shown["indexes"]] == [
        ("name_btree", 3, 3)
    ]
    assert shown["regions"][0]["number"] == 0
    assert {"key_index", "row_cache", "stalls", "memtable_bytes", "log_position"} <= shown.keys()
    assert "Levels" not in stock("table", "show", "shop.events").out


def test_a_row_is_shown_by_its_key(stock: Run) -> None:
    assert stock("get", "shop.stock", "7", "--json").json() == {"id": 7, "name": "n07"}
    assert "n07" in stock("get", "shop.stock", "7").out
    assert stock("get", "shop.days", json.dumps(["a", "2024-01-01"]), "--json").json()["n"] == 1


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        ("shop.stock", "99", "has no row with key 99"),
        ("shop.stock", "seven", "id must be a whole number"),
        ("shop.days", "a", "JSON array of shop, day"),
        ("shop.days", '["a"]', "JSON array of shop, day"),
        ("shop.days", '["a", "someday"]', "day takes a date"),
        ("shop.days", '[1, "2024-01-01"]', "must be text"),
        ("shop.events", "1", "no primary key"),
        ("shop.nothing", "1", "nothing"),
    ],
)
def test_a_wrong_key_is_one_sentence(stock: Run, table: str, key: str, message: str) -> None:
    failed = stock("get", table, key)
    assert (failed.code, failed.out) == (1, "")
    assert message in failed.err
    assert len(failed.err.strip().splitlines()) == 1


def test_full_manifests_are_written_by_hand(stock: Run, tmp_path: Path) -> None:
    done = stock("manifest", "write", "shop.stock", "--json")
    assert done.code == 0
    manifests = [*(tmp_path / "lake" / "tables").glob("*/manifests/*.full")]
    assert len(manifests) == 1
    assert "of the lake and of every table" in stock("manifest", "write").out
    assert len([*(tmp_path / "lake" / "tables").glob("*/manifests/*.full")]) == 3
    assert len([*(tmp_path / "lake" / "manifests").glob("*.full")]) == 1
    assert stock("manifest", "write", "shop.nothing").code == 1
