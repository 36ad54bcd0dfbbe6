"""Rows of engines for tables with a primary key, and deletes by value for tables of either kind."""

from __future__ import annotations

import itertools
import random
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.errors import Conflict, Fenced, Unsupported
from moulin.iceberg.rest.commit.engine_files import DataFile
from moulin.iceberg.rest.commit.intake import Intake
from moulin.lake import Lake
from tests.commands import fork
from tests.iceberg.rest.engine_deletes import Changes
from tests.iceberg.rest.served import Client, duckdb_attached, error, pyiceberg_catalog, served
from tests.iceberg.rest.test_commit import SCHEMA, Written

pytestmark = pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")
KEYED = {
    **SCHEMA,
    "identifier-field-ids": [1],
    "fields": [{**SCHEMA["fields"][0], "required": True}, SCHEMA["fields"][1]],  # type: ignore[index]
}


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    with served(lake) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        yield client


def make(client: Client, schema: dict[str, Any] = KEYED, **properties: str) -> None:
    made = client.post("/namespaces/shop/tables", json={"name": "t", "schema": schema, "properties": properties})
    assert made.status_code == 200, made.text


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    found = lake.table("shop.t").scan(["id", "name"]).to_arrow().to_pylist()
    return sorted(((row["id"], row["name"]) for row in found), key=repr)


def sent(changes: Written, lake: Lake) -> None:
    answer = changes.send()
    assert answer.status_code == 200, answer.text
    assert check(lake.own_catalog()) == []


def test_appends_become_upserts_by_key(address: str, client: Client, lake: Lake) -> None:
    make(client)
    table = lake.table("shop.t")
    table.append([{"id": n, "name": "ours"} for n in range(10)])
    sent(Written(address, client, [["new", "new", "new"], [3, 11, 4]]), lake)
    assert rows(lake) == sorted([(n, "new" if n in (3, 4, 11) else "ours") for n in [*range(10), 11]], key=repr)
    assert table.get(11) == {"id": 11, "name": "new"}
    table.put({"id": 11, "name": "again"})
    lake.flush()
    assert table.get(11) == {"id": 11, "name": "again"}
    with duckdb_attached(address) as connection:
        found = connection.execute("SELECT count(*), count(distinct id) FROM ice.shop.t").fetchone()
    assert found == (11, 11)


def test_a_key_that_comes_twice_in_one_commit_is_refused_by_name(address: str, client: Client, lake: Lake) -> None:
    make(client)
    lake.table("shop.t").append([{"id": 1, "name": "ours"}])
    assert "key 7" in error(Written(address, client, [["a", "b"], [7, 7]]).send(), 400, "BadRequestException")
    assert rows(lake) == [(1, "ours")]


def test_pyiceberg_appends_overwrites_and_deletes_in_keyed_tables(address: str, client: Client, lake: Lake) -> None:
    make(client)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])

    def some(ids: list[int], name: str) -> pa.Table:
        return pa.table([pa.array(ids, pa.int64()), pa.array([name] * len(ids))], schema=schema)

    table = pyiceberg_catalog(address).load_table("shop.t")
    table.append(some([1, 2, 3, 4], "a"))
    table.append(some([3, 4, 5], "b"))
    table.delete("id = 1")
    table.overwrite(some([4], "c"), overwrite_filter="id = 4")
    expected = [(2, "a"), (3, "b"), (4, "c"), (5, "b")]
    assert rows(lake) == expected
    found = pyiceberg_catalog(address).load_table("shop.t").scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["name"]) for row in found) == expected
    assert lake.table("shop.t").get(4) == {"id": 4, "name": "c"}
    assert check(lake.own_catalog()) == []


@pytest.mark.parametrize("version", ["2", "3"])
def test_duckdb_inserts_and_deletes_in_keyed_tables(address: str, client: Client, lake: Lake, version: str) -> None:
    make(client, **{"format-version": version})
    with duckdb_attached(address) as connection:
        connection.execute("SET unsafe_iceberg_ignore_sort_order = true")
        connection.execute("INSERT INTO ice.shop.t VALUES (1, 'a'), (2, 'a'), (3, 'a')")
        connection.execute("DELETE FROM ice.shop.t WHERE id = 2")
        connection.execute("INSERT INTO ice.shop.t VALUES (3, 'b'), (4, 'b')")
        assert sorted(connection.execute("SELECT * FROM ice.shop.t").fetchall()) == [(1, "a"), (3, "b"), (4, "b")]
    assert rows(lake) == [(1, "a"), (3, "b"), (4, "b")]
    assert check(lake.own_catalog()) == []


def test_what_was_put_and_not_flushed_is_there_before_an_engines_rows(address: str, client: Client, lake: Lake) -> None:
    make(client)
    table = lake.table("shop.t")
    table.put({"id": 1, "name": "put"})
    table.put({"id": 2, "name": "put"})
    sent(Written(address, client, [["engine"], [1]]), lake)  # loading the table flushes what was put
    table.put({"id": 3, "name": "put"})
    assert rows(lake) == [(1, "engine"), (2, "put"), (3, "put")]
    late = Written(address, client, [["engine"], [2]])
    table.put({"id": 3, "name": "later"})
    error(late.send(), 409, "CommitFailedException")
    assert rows(lake) == [(1, "engine"), (2, "put"), (3, "later")]


def put_until_killed(lake: str, log_folder: str, acknowledged: str) -> None:
    """Run in another process: put rows with the keys 1000, 1001 and so on; the last that is certain is in a file."""
    with moulin.connect(lake, log_folder=log_folder) as other:
        for number in itertools.count(1000):
            while True:
                with suppress(Fenced, Conflict):
                    other.table("shop.t").put({"id": number, "name": "theirs"})
                    break
            Path(acknowledged).write_text(str(number))


@pytest.mark.parametrize("log_folder", ["", "store"], ids=["logs on this machine", "logs in the store"])
def test_commits_and_puts_of_another_process_lose_nothing_and_a_refusal_names_it(
    tmp_path: Path, log_folder: str
) -> None:
    options: dict[str, Any] = {"log_folder": log_folder, "lock_seconds": 0.3}
    acknowledged = tmp_path / "acknowledged"
    with moulin.connect(tmp_path / "lake", **options) as lake:
        lake.create_database("shop")
        with served(lake) as address, Client(address) as client:
            make(client)
            process = fork(put_until_killed, str(tmp_path / "lake"), log_folder, str(acknowledged))
            committed, refused = [], 0
            try:
                while not acknowledged.exists():
                    assert process.is_alive()
                    time.sleep(0.05)
                for number in range(12):
                    answer = Written(address, client, [["engine"], [number]]).send()
                    assert answer.status_code in (200, 409), answer.text
                    refused += answer.status_code == 409
                    if not log_folder:
                        said = error(answer, 409, "CommitFailedException")
                        assert f"shop.t is open for puts in process {process.pid} on {socket.gethostname()}: " in said
                    committed += [number] if answer.status_code == 200 else []
            finally:
                process.kill()
                process.join()
            assert refused == 12 if not log_folder else committed, "a log on a disk stays with who has it"
            late = [Written(address, client, [["engine"], [99]]).send().status_code for _ in range(3)]
            assert 200 in late, "what was put is flushed first, which moves the head"
    last = int(acknowledged.read_text())
    with moulin.connect(tmp_path / "lake", log_folder=log_folder) as again:
        ids = sorted(number for number, _ in rows(again))
        assert [n for n in ids if n < 1000] == [*committed, 99]
        assert set(range(1000, last + 1)) <= set(ids) <= {*range(1000, last + 2), *committed, 99}
        assert check(again.own_catalog()) == []


@pytest.mark.parametrize("schema", [SCHEMA, KEYED], ids=["events", "keyed"])
def test_equality_deletes_hide_the_rows_that_duckdb_hides(
    tmp_path: Path, address: str, client: Client, lake: Lake, schema: dict[str, Any]
) -> None:
    make(client, schema)
    table = lake.table("shop.t")
    table.append([{"id": n, "name": "x" if n % 3 else None} for n in range(12)])
    table.delete_where("id = 6")
    steps: list[tuple[list[list[Any]], list[int], Any]] = [
        ([["?", "?"], [1, 99]], [1], None),
        ([["x", None, "x"], [2, 3, 8]], [1, 2], None),
        ([["?", "?"], [4, 5]], [1], [["new", "new"], [4, 20]]),
        ([[None], [0]], [2], None),
        ([["x"], [0]], [2], [["x"], [30]]),
    ]
    for deleted, ids, added in steps:
        changes = Changes(address, client, deleted, ids, added)
        expected = changes.as_duckdb_reads_it(address, tmp_path)
        sent(changes, lake)
        assert rows(lake) == expected
        with duckdb_attached(address) as connection:
            shown = connection.execute("SELECT id, name FROM ice.shop.t").fetchall()
        assert sorted(shown, key=repr) == expected


def test_null_equals_null_and_nothing_else(address: str, client: Client, lake: Lake) -> None:
    """DuckDB 1.5 hides the second row, too: it negates a comparison with null."""
    make(client, SCHEMA)
    lake.table("shop.t").append([{"id": 1, "name": None}, {"id": 2, "name": None}, {"id": None, "name": "x"}])
    sent(Changes(address, client, [[None, "x", "x"], [1, 2, None]], [1, 2]), lake)
    assert rows(lake) == [(2, None)]


def test_equality_deletes_of_a_partition_leave_the_others_alone(address: str, client: Client, lake: Lake) -> None:
    """DuckDB 1.5 takes them for all partitions; the specification says: of the same spec and partition."""
    make(client, SCHEMA)
    table = lake.table("shop.t")
    table.set_partitioning(["name"])
    table.append([{"id": n, "name": name} for n in range(4) for name in ("a", "b")])
    sent(Changes(address, client, [["a", "a"], [1, 2]], [1]), lake)
    assert rows(lake) == [(0, "a"), (0, "b"), (1, "b"), (2, "b"), (3, "a"), (3, "b")]


def test_equality_deletes_that_make_no_sense_are_refused(address: str, client: Client, lake: Lake) -> None:
    make(client, SCHEMA)
    lake.table("shop.t").append([{"id": 1, "name": "x"}])
    for ids in ([], [77], [1, 77]):
        error(Changes(address, client, [["x"], [1]], ids).send(), 400, "BadRequestException")
    assert rows(lake) == [(1, "x")]


def test_equality_deletes_of_a_table_that_is_registered_are_refused(client: Client, lake: Lake) -> None:
    make(client, SCHEMA)
    state = lake.own_catalog().table("shop", "t")
    intake = Intake(lake.context, state, state.schema_id, "all")
    intake.foreign = {0: 0}
    with pytest.raises(Unsupported, match="equality deletes"):
        intake._hide_equal({"a.parquet": DataFile({}, 1, 0, ())}, {}, {}, set())


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("schema", [SCHEMA, KEYED], ids=["events", "keyed"])
def test_streams_of_changes_leave_what_a_dict_has(
    address: str, client: Client, lake: Lake, schema: dict[str, Any], seed: int
) -> None:
    """Each commit deletes some keys by value and adds some rows, as writers of change streams do."""
    make(client, schema)
    chance = random.Random(seed)
    model: dict[int, str] = {}
    for number in range(6):
        ids = chance.sample(range(20), 5)
        gone = [*ids, *chance.sample(range(20), 3)]
        names = [f"{number}.{n}" for n in ids]
        sent(Changes(address, client, [["?"] * len(gone), gone], [1], [names, ids]), lake)
        for one in gone:
            model.pop(one, None)
        model |= dict(zip(ids, names, strict=True))
        assert rows(lake) == sorted(model.items(), key=repr)
        if chance.random() < 0.3:
            lake.table("shop.t").compact(everything=True)
