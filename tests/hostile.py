"""What the hostile-client suites share: a lake with everything in it, and what must be true of it afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import duckdb
import pyarrow as pa

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.config import Config
from moulin.lake import Lake
from moulin.storage.store import open_store
from moulin.table.table import Table

COLUMNS = [("id", "long"), ("name", "string")]
ROWS = 20


def fill(lake: Lake) -> None:
    """Databases, tables and rows of people who did nothing: with vectors, journals, an index, keys and a tag."""
    lake.create_database("shop")
    orders = lake.create_table("shop.orders", COLUMNS)
    for first in range(0, ROWS, 5):
        orders.append(rows(range(first, first + 5)))
    orders.compact()
    orders.delete_where("id = 7")
    orders.create_index("id", "btree")
    lake.create_table("shop.users", [("id", "long", False), ("name", "string")], primary_key=["id"])
    users = lake.table("shop.users")
    users.append(rows(range(ROWS)))
    orders.tag("first", orders.version)


def rows(ids: Iterable[int]) -> pa.Table:
    wanted = [*ids]
    return pa.table({"id": pa.array(wanted, pa.int64()), "name": [f"n{one}" for one in wanted]})


class Bystanders:
    """What the lake had before the attack, and still has after a clean-up that waits for nothing."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        self.lake, self.folder = lake, folder
        collect(lake.own_catalog(), history_keep=0, orphan_grace=0, byte_floor=0)
        self.tables = {str(lake.table(name).id) for name in ("shop.orders", "shop.users")}
        self.files = {info.path for info in lake.store.list("") if self._counts(info.path)}

    def check(self) -> None:
        catalog = self.lake.own_catalog()
        done = collect(catalog, history_keep=0, orphan_grace=0, byte_floor=0)
        assert done.failures == []
        there = {info.path for info in self.lake.store.list("") if self._counts(info.path)}
        assert self.files <= there, f"gone: {sorted(self.files - there)}"
        findings = check(catalog)
        assert findings == [], findings
        assert self.ids("shop.orders") == [n for n in range(ROWS) if n != 7]
        assert self.ids("shop.users") == [*range(ROWS)]
        self._check_segments()

    def ids(self, name: str, lake: Lake | None = None) -> list[int]:
        found = (lake or self.lake).table(name).scan().to_arrow()["id"].to_pylist()
        return sorted(found)

    def recover(self, target: Path) -> None:
        """Into a catalog of its own, from a copy of what is in storage."""
        self.lake.own_catalog().publisher.publish()
        shutil.copytree(self.folder, target, ignore=shutil.ignore_patterns("catalog.sqlite*", "access.toml"))
        recover(open_store(str(target)), f"sqlite:///{target / 'catalog.sqlite'}", Config())
        with moulin.connect(target) as again:
            assert self.ids("shop.orders", again) == [n for n in range(ROWS) if n != 7]
            assert self.ids("shop.users", again) == [*range(ROWS)]
            assert check(again.own_catalog()) == []

    def _check_segments(self) -> None:
        """Every row of the segments, as DuckDB reads them."""
        table: Table = self.lake.table("shop.users")
        live = self.lake.own_catalog().segments(table.id, self.lake.version)
        names = [str(self.folder / segment.facts.path) for segment in live]
        found = duckdb.sql(f"select id from read_parquet({names}) order by id").fetchall()
        assert {row[0] for row in found} >= set(range(ROWS))

    def _counts(self, path: str) -> bool:
        """Whether the file was there before, and is not a manifest, which a newer full one may replace."""
        parts = path.split("/")
        return path == "moulin.json" or (parts[0] == "tables" and parts[1] in self.tables and parts[2] != "manifests")


def refused_paths(lake: Lake) -> list[str]:
    """Paths that no commit to another table may name: ways out, folders, and files of the bystanders."""
    tables = {name: str(lake.table(name).id) for name in ("shop.orders", "shop.users")}
    live = [info.path for info in lake.store.list("tables") if info.path.split("/")[1] in tables.values()]
    folder = f"tables/{tables['shop.orders']}"
    one_of_each = {path.split("/")[2]: path for path in live}
    return [
        "",
        "/",
        ".",
        "../",
        "tables",
        "tables/",
        "manifests/",
        f"{folder}/",
        f"{folder}/data/",
        "moulin.json",
        "catalog.sqlite",
        "/etc/passwd",
        "tables/../moulin.json",
        f"{folder}/data/../../../moulin.json",
        "tables/%2e%2e/moulin.json",
        "s3://bucket/key",
        "a\0b",
        "x" * 3000,
        *one_of_each.values(),
    ]


TEXTS = ("", " ", "a\0b", "_row_id", "../x", "x" * 300_000, "00000000-0000-7000-8000-000000000000", "\n", "A`b")
NUMBERS = (-(2**63), -1, 0, 1, 2**31 - 1, 2**31, 2**62, 2**63 - 1)


__all__ = ["COLUMNS", "NUMBERS", "ROWS", "TEXTS", "Bystanders", "fill", "refused_paths", "rows"]
