"""A file that a version names and that is gone is damage, whoever reads it: never a row that is not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moulin.catalog.replica import ReplicaCatalog
from moulin.errors import Corrupt, FailedPrecondition
from moulin.lake import Lake
from moulin.table.table import Table

ITEMS = [("id", "long", False), ("name", "string")]
READS: dict[str, tuple[str, Callable[[Table], Any]]] = {
    "get": (".parquet", lambda table: table.get(7)),
    "get_many": (".parquet", lambda table: table.get_many([7, 8])),
    "scan": (".parquet", lambda table: table.scan().to_pylist()),
    "ordered scan": (".parquet", lambda table: table.scan(ordered=True).to_pylist()),
    "a scan of a version": (".parquet", lambda table: table.at(version=table.version).scan().to_pylist()),
    "changes": (".parquet", lambda table: table.changes(2).to_arrow()),
    "compact": (".parquet", lambda table: table.compact(everything=True)),
    "get by a key index": (".keys", lambda table: table.get(7)),
    "get_many by a key index": (".keys", lambda table: table.get_many([7, 8])),
    "an ordered scan by a key index": (".keys", lambda table: table.scan(start=5, end=9).to_pylist()),
    "append over a key index": (".keys", lambda table: table.append([item(7)])),
    "flush over a key index": (".keys", lambda table: table.put(item(7)) or table.flush()),
    "scan with unflushed rows": (".keys", lambda table: table.put(item(7)) or table.scan().to_pylist()),
    "get over a vector": (".puffin", lambda table: table.get(7)),
    "scan over a vector": (".puffin", lambda table: table.scan().to_pylist()),
    "count over a vector": (".puffin", lambda table: table.scan(where="name > ''").count()),
    "delete over a vector": (".puffin", lambda table: table.delete_where("id = 8")),
}


def item(number: int, name: str | None = None) -> dict[str, Any]:
    return {"id": number, "name": name or f"n{number}"}


def make(root: Path) -> None:
    """A table with two segments and deletion vectors."""
    with Lake.open(root) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.items", ITEMS, primary_key=["id"])
        table.append([item(number) for number in range(20)])
        table.append([item(number, "other") for number in (3, 4)])
        table.delete_where("id = 5")


def lose(root: Path, suffix: str) -> str:
    files = sorted(root.glob(f"tables/**/*{suffix}"))
    for file in files:
        file.unlink()
    return suffix


@pytest.mark.parametrize("read", READS)
def test_a_file_that_is_gone_is_damage(tmp_path: Path, read: str) -> None:
    make(tmp_path / "lake")
    suffix, call = READS[read]
    lose(tmp_path / "lake", suffix)
    settings = {"merge_background": "off"}
    lake = Lake.open(tmp_path / "lake", settings=settings)
    try:
        with pytest.raises(Corrupt, match=rf"{suffix} is gone.*moulin check"):
            call(lake.table("shop.items"))
        assert [lake.catalog.head_version(lake.table("shop.items").id)] == [lake.version], "and nothing was committed"
    finally:
        try:
            lake.close()
        except Corrupt:
            assert "flush" in read or "unflushed" in read


def test_a_journal_that_is_gone_is_damage(tmp_path: Path) -> None:
    """A delete that was prepared before a compaction follows it by its journal."""
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.events", ITEMS)
        table.append([item(number) for number in range(20)])
        with pytest.raises(Corrupt, match=r"\.journal is gone"), lake.transaction() as transaction:
            transaction.table("shop.events").delete_where("id = 5")
            table.compact(everything=True)
            lose(tmp_path / "lake", ".journal")
        assert table.scan().count() == 20


def test_a_replica_says_to_refresh(tmp_path: Path) -> None:
    """It cannot keep clean-up from passing by, so a file that is gone means that it is behind."""
    make(tmp_path / "lake")
    with Lake.open_replica(tmp_path / "lake") as replica:
        assert isinstance(replica.catalog, ReplicaCatalog)
        table = replica.table("shop.items")
        lose(tmp_path / "lake", ".parquet")
        for call in (lambda: table.get(7), lambda: table.scan().to_pylist()):
            with pytest.raises(FailedPrecondition, match="refresh"):
                call()
