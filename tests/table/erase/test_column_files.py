"""Erase, where rows have columns in files of their own: complete, folded, dropped, pending, of branches and clones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.config import Config
from moulin.errors import InvalidInput
from moulin.lake import Lake
from moulin.mirror import Mirror
from moulin.model.schema.type_reader import parse_type
from moulin.storage.store import open_store
from moulin.table.fill.compute import Expression
from moulin.table.fill.fill import Filler, begin
from moulin.table.table import Table
from tests.table.conftest import BACKENDS
from tests.table.erase.planting import (
    NUMBER,
    ORDERS,
    SECRET,
    WHERE,
    catalog_files,
    history,
    holding,
    order,
    rows_of,
    secret,
    without_secret,
)

OpenLake = Callable[..., Lake]
in_a_folder = pytest.mark.parametrize("open_lake", BACKENDS[:1], indirect=True)


def leave_pending(table: Table, name: str, sql: str, *, filled: bool) -> None:
    """A fill that was killed: after it began, or before it was complete."""
    kind = parse_type("string")
    begin(table._context, table.state, table._keyed(), [(name, kind)], ["email"], sql)
    if filled:
        state = table.state()
        field = state.schema.find_field(name)
        filler = Filler(table._context, table.state, table._keyed(), (name,), Expression.of(state.schema, field, sql))
        filler._fill(state, filler._waiting(state))


def plant(lake: Lake, name: str = "shop.t", **options: Any) -> Table:
    """The value in column files of every kind, of kept versions of today and before."""
    table = lake.create_table(name, ORDERS, **options)
    table.append([order(n) for n in range(10)])
    table.append([secret(100), order(101), secret(102)])
    table.add_column("dropped", "string", from_sql="email")
    table.tag("before")
    table.add_column("number", "long", from_sql="user")
    table.delete_where("id = 102")
    table.append([{**secret(103), "dropped": SECRET, "number": NUMBER}])
    table.drop_column("dropped")
    table.fold()
    table.append([{**secret(104), "number": NUMBER}, {**order(105), "number": 105}])
    table.add_column("copy", "string", from_sql="email")
    table.add_columns(lambda batch: {"wide": [[{"x": v}] for v in batch["email"].to_pylist()]}, read=["email"])
    return table


def done_right(lake: Lake, names: list[str], before: dict[Any, Any], folder: Path | None = None) -> None:
    assert holding(lake.store) == []
    if folder is not None and (folder / "lake").exists():
        assert catalog_files(folder / "lake") == []
    after = history(lake, names)
    assert {at: after[at] for at in before} == without_secret(before)
    assert not check(lake.own_catalog(), data=True)


@pytest.mark.parametrize("options", [{}, {"primary_key": ["id"]}], ids=["event", "keyed"])
def test_values_in_column_files_are_erased(lake: Lake, tmp_path: Path, options: dict[str, Any]) -> None:
    table = plant(lake, **options)
    leave_pending(table, "begun", "email", filled=False)
    leave_pending(table, "half", "email", filled=True)
    table.append([{**secret(106), "number": 1, "copy": None, "wide": None}])
    before = history(lake, ["shop.t"])
    done = table.erase(WHERE)
    assert done.complete
    assert any(one["columns"] for one in done.report["rewritten"])
    done_right(lake, ["shop.t"], before, tmp_path)
    table.add_column("half", "string", from_sql="email")
    table.add_column("begun", "string", from_sql="email")
    assert {row["half"] for row in rows_of(table).values()} == {row["email"] for row in rows_of(table).values()}
    table.fold()
    assert {row["copy"] for key, row in rows_of(table).items() if key < 10} == {f"u{n}@x" for n in range(10)}
    table.close()
    collect(lake.own_catalog(), history_keep=0, byte_floor=0, orphan_grace=0)
    assert not check(lake.own_catalog(), data=True)


@in_a_folder
def test_values_that_only_a_column_file_has_are_found(lake: Lake) -> None:
    table = lake.create_table("shop.t", ORDERS)
    table.append([order(n) for n in range(6)])
    table.add_column("score", "long", from_sql=f"user + {NUMBER - 3}")
    table.add_column("other", "long", from_sql="user")
    table.drop_column("other")
    done = table.erase(f"score = {NUMBER}")
    assert done.rows == 1
    assert rows_of(table).keys() == {0, 1, 2, 4, 5}
    assert table.erase("other = 4").rows == 1
    assert rows_of(table).keys() == {0, 1, 2, 5}
    assert holding(lake.store) == []


@in_a_folder
def test_a_null_of_a_column_that_was_pending_is_no_value(lake: Lake) -> None:
    table = lake.create_table("shop.t", ORDERS)
    table.append([order(n) for n in range(4)])
    table.add_column("score", "long", from_sql="user")
    table.append([{**order(9), "score": None}])
    assert table.erase("score is null").rows == 1
    assert rows_of(table).keys() == {0, 1, 2, 3}
    leave_pending(table, "later", "email", filled=True)
    with pytest.raises(InvalidInput, match="later|being filled"):
        table.erase("later is null")
    table.drop_column("later")
    with pytest.raises(InvalidInput, match="later|being filled"):
        table.erase("later is null")


def test_branches_and_clones_with_column_files_of_their_own_are_erased(lake: Lake, tmp_path: Path) -> None:
    plant(lake)
    branch = lake.branch("exp", expires="7d")
    branch.table("shop.t").add_column("mine", "string", from_sql="email")
    lake.clone_table("shop.t", "shop.copy", at="before")
    lake.table("shop.copy").add_column("theirs", "string", from_sql="note")
    lake.table("shop.copy").append([secret(500)])
    lake.clone_table("shop.copy", "shop.copy2")
    lake.table("shop.copy2").drop_column("theirs")
    names = ["shop.t", "shop.copy", "shop.copy2", "shop@exp.t"]
    before = history(lake, names)
    lake.table("shop.copy2").erase(WHERE)
    done_right(lake, names, before, tmp_path)


def test_what_was_erased_from_column_files_stays_erased_elsewhere(tmp_path: Path) -> None:
    folder, mirrored = tmp_path / "lake", tmp_path / "mirror"
    with moulin.connect(folder) as lake:
        lake.create_database("shop")
        table = plant(lake)
        before = history(lake, ["shop.t"])
        copy = Mirror(lake, str(mirrored))
        copy.run_once()
        table.erase(WHERE)
        copy.run_once()
        after = history(lake, ["shop.t"])
        done_right(lake, ["shop.t"], before)
    assert holding(open_store(str(mirrored))) == []
    for place in (folder, mirrored):
        recover(open_store(str(place)), f"sqlite:///{tmp_path / 'again.sqlite'}", Config())
        (place / "catalog.sqlite").unlink(missing_ok=True)
        (tmp_path / "again.sqlite").rename(place / "catalog.sqlite")
        with moulin.connect(place) as lake:
            assert history(lake, ["shop.t"]) == after
            assert not check(lake.own_catalog(), data=True)


@in_a_folder
def test_a_fill_beside_an_erase_fills_what_stays(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("shop.t", ORDERS)
    table.append([secret(1), order(2)])
    table.append([order(3)])
    commit = Filler._commit

    def erase_first(self: Filler, *given: Any) -> None:
        monkeypatch.setattr(Filler, "_commit", commit)
        lake.table("shop.t").erase(WHERE)
        commit(self, *given)

    monkeypatch.setattr(Filler, "_commit", erase_first)
    table.add_column("copy", "string", from_sql="email")
    assert {key: row["copy"] for key, row in rows_of(table).items()} == {2: "u2@x", 3: "u3@x"}
    collect(lake.own_catalog(), orphan_grace=0)
    assert holding(lake.store) == []
    assert not check(lake.own_catalog(), data=True)
