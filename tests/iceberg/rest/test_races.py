"""Engines and our own API that write to the same tables at the same time: every writer gets done, nothing is lost."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException

import moulin
from moulin.catalog.upkeep.check import check
from moulin.errors import Conflict
from moulin.lake import Lake
from tests.iceberg.rest.served import Client, duckdb_attached, pyiceberg_catalog, served
from tests.iceberg.rest.test_commit import SCHEMA

_MOST_TRIES = 40
Commit = Callable[[int], None]


@contextmanager
def engines(lake: Lake, address: str, tables: tuple[str, ...]) -> Iterator[dict[str, Commit]]:
    """By name: a function that adds one row to each of the tables, in one commit where the engine can."""
    catalog = pyiceberg_catalog(address)

    def pyiceberg(number: int) -> None:
        for name in tables:
            catalog.load_table(f"shop.{name}").append(pa.table({"id": pa.array([number], pa.int64()), "name": ["p"]}))

    def ours(number: int) -> None:
        with lake.transaction() as tx:
            for name in tables:
                tx.table(f"shop.{name}").append([{"id": number, "name": "m"}])

    with duckdb_attached(address) as connection:

        def duck(number: int) -> None:
            connection.execute("BEGIN")
            try:
                for name in tables:
                    connection.execute(f"INSERT INTO ice.shop.{name} VALUES ({number}, 'd')")
                connection.execute("COMMIT")
            except duckdb.Error:
                with suppress(duckdb.TransactionException):  # it failed while it committed
                    connection.execute("ROLLBACK")
                raise

        yield {"pyiceberg": pyiceberg, "duckdb": duck, "moulin": ours}


def until_done(commit: Commit, number: int, chance: random.Random) -> int:
    """Commit, again after each lost race; returns how many tries that took."""
    for attempt in range(1, _MOST_TRIES):
        with suppress(CommitFailedException, Conflict, duckdb.Error):
            commit(number)
            return attempt
        time.sleep(chance.random() * 0.05)
    commit(number)
    return _MOST_TRIES


def race(lake: Lake, commits: int, properties: dict[str, str], tables: tuple[str, ...]) -> None:
    with served(lake) as address:
        with Client(address) as client:
            for name in tables:
                body: dict[str, Any] = {"name": name, "schema": SCHEMA, "properties": properties}
                assert client.post("/namespaces/shop/tables", json=body).status_code == 200
        with engines(lake, address, tables) as known:

            def work(writer: int, commit: Commit) -> None:
                chance = random.Random(writer)
                for number in range(commits):
                    until_done(commit, writer * 10_000 + number, chance)

            with ThreadPoolExecutor(len(known)) as pool:
                for done in [pool.submit(work, writer, commit) for writer, commit in enumerate(known.values())]:
                    done.result()
            expected = sorted(writer * 10_000 + number for writer in range(len(known)) for number in range(commits))
    for name in tables:
        assert sorted(lake.table(f"shop.{name}").scan(["id"]).to_arrow()["id"].to_pylist()) == expected
    assert check(lake.own_catalog()) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("commits", [2, 25])
def test_three_engines_on_two_tables_lose_nothing(lake: Lake, commits: int) -> None:
    race(lake, commits, {"moulin.rebase-appends": "true"}, ("t", "u"))


@pytest.mark.long
def test_three_engines_on_a_table_that_rebases_nothing_lose_nothing(lake: Lake) -> None:
    race(lake, 10, {}, ("t",))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("tables", [("t",), ("t", "u")], ids=["one table", "two tables"])
def test_three_engines_with_a_hundred_commits_each_lose_nothing(lake: Lake, tables: tuple[str, ...]) -> None:
    race(lake, 100, {"moulin.rebase-appends": "true"}, tables)


@pytest.mark.postgres
@pytest.mark.sample(1)
@pytest.mark.parametrize("commits", [4, 30])
def test_engines_our_own_appends_and_compactions_at_once_lose_nothing(
    postgres_url: str, tmp_path: Path, commits: int
) -> None:
    """Each has a lake of its own on one catalog in PostgreSQL, as processes have."""
    with ExitStack() as stack:
        lakes = [stack.enter_context(moulin.connect(postgres_url, storage=str(tmp_path / "lake"))) for _ in range(3)]
        lakes[0].create_database("shop")
        address = stack.enter_context(served(lakes[0]))
        with Client(address) as client:
            body = {"name": "t", "schema": SCHEMA, "properties": {"moulin.rebase-appends": "true"}}
            assert client.post("/namespaces/shop/tables", json=body).status_code == 200
        writing = threading.Event()

        def engine(first: int) -> None:
            table = pyiceberg_catalog(address).load_table("shop.t")
            for number in range(first, first + commits):
                table.append(pa.table({"id": pa.array([number], pa.int64()), "name": ["p"]}))

        def ours(first: int) -> None:
            for number in range(first, first + commits):
                lakes[1].table("shop.t").append([{"id": number, "name": "m"}])
                if number % 3 == 0:
                    lakes[1].table("shop.t").delete_where(f"id = {number}")

        def compact() -> None:
            while not writing.is_set():
                with suppress(Conflict):
                    lakes[2].table("shop.t").compact(everything=True)

        with ThreadPoolExecutor(4) as pool:
            compacting = pool.submit(compact)
            try:
                for done in [pool.submit(*one) for one in ((engine, 0), (engine, 1000), (ours, 2000))]:
                    done.result()
            finally:
                writing.set()
            compacting.result()
        expected = {first + number for first in (0, 1000, 2000) for number in range(commits)}
        expected -= {number for number in expected if number >= 2000 and number % 3 == 0}
        lakes[2].table("shop.t").compact(everything=True)
        assert sorted(lakes[0].table("shop.t").scan(["id"]).to_arrow()["id"].to_pylist()) == sorted(expected)
        shown = pyiceberg_catalog(address).load_table("shop.t").scan(selected_fields=("id",)).to_arrow()
        assert sorted(shown["id"].to_pylist()) == sorted(expected)
        assert check(lakes[0].own_catalog()) == []
