"""Many writers on one table: appends are rebased, and whoever lost a race is the next to try."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

import moulin
from moulin.catalog.sql import turns
from moulin.catalog.upkeep.check import check
from moulin.iceberg.format.metadata import SNAPSHOTS
from moulin.lake import Lake
from tests.commands import fork
from tests.iceberg.rest.served import Client, pyiceberg_catalog, served
from tests.iceberg.rest.test_commit import SCHEMA, T, Written

pytestmark = pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")
NO_RETRIES = {"commit.retry.num-retries": "0"}
REBASING = {**NO_RETRIES, "moulin.rebase-appends": "true"}


def make(address: str, properties: dict[str, str], name: str = "t") -> None:
    with Client(address) as client:
        body = {"name": name, "schema": SCHEMA, "properties": properties}
        assert client.post("/namespaces/shop/tables", json=body).status_code == 200


def together(work: Callable[[int], None], writers: int) -> None:
    """Run the work of each writer in a thread of its own; the first error of one is raised."""
    with ThreadPoolExecutor(writers) as pool:
        for done in [pool.submit(work, number) for number in range(writers)]:
            done.result()


def rows(ids: Sequence[int], name: str = "x") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [name] * len(ids)})


def append_numbers(addresses: Sequence[str], chosen: range, commits: int) -> None:
    """Every chosen writer appends its numbers one by one, and tries nothing twice."""

    def work(index: int) -> None:
        writer = chosen[index]
        table = pyiceberg_catalog(addresses[writer % len(addresses)]).load_table("shop.t")
        for number in range(commits):
            table.append(rows([writer * commits + number]))

    together(work, len(chosen))


def append_from_all(lake: Lake, addresses: Sequence[str], writers: int, commits: int, processes: int = 0) -> None:
    """Writers append, in this process or in some of their own: all of it is there, in one line of snapshots."""
    if not processes:
        append_numbers(addresses, range(writers), commits)
    each = writers // max(1, processes)
    forked = [fork(append_numbers, addresses, range(n * each, n * each + each), commits) for n in range(processes)]
    for one in forked:
        one.join()
    assert [one.exitcode for one in forked] == [0] * processes
    found = lake.table("shop.t").scan(["id"]).to_arrow()["id"].to_pylist()
    assert sorted(found) == list(range(writers * commits))
    snapshots = pyiceberg_catalog(addresses[0]).load_table("shop.t").metadata.snapshots
    assert len(snapshots) == min(writers * commits, SNAPSHOTS), "every writer finds its snapshots"
    parents = [one.parent_snapshot_id for one in snapshots]
    assert parents[1:] == [one.snapshot_id for one in snapshots[:-1]], "in one line"
    assert (parents[0] is None) == (len(snapshots) == writers * commits)


def overwrite_from_all(
    lake: Lake, addresses: Sequence[str], writers: int, commits: int, most_tries: int
) -> Counter[int]:
    """Every writer changes and deletes rows of its own again and again; returns how many tries commits took."""
    from pyiceberg.exceptions import CommitFailedException

    pyiceberg_catalog(addresses[0]).load_table("shop.t").append(rows(range(2 * writers), "begun"))
    tries: Counter[int] = Counter()

    def commit(catalog: Any, writer: int, number: int) -> None:
        table = catalog.load_table("shop.t")
        if number == 0:
            table.delete(f"id = {writers + writer}")
        else:
            table.overwrite(rows([writer], str(number)), overwrite_filter=f"id = {writer}")

    def work(writer: int) -> None:
        catalog = pyiceberg_catalog(addresses[writer % len(addresses)])
        for number in range(commits):
            for attempt in range(1, most_tries + 1):
                try:
                    commit(catalog, writer, number)
                    tries[attempt] += 1
                    break
                except CommitFailedException:
                    assert attempt < most_tries, f"writer {writer} lost {attempt} times"

    together(work, writers)
    found = lake.table("shop.t").scan().to_arrow().to_pylist()
    last = str(commits - 1)
    assert sorted((row["id"], row["name"]) for row in found) == [(n, last) for n in range(writers)]
    return tries


@contextmanager
def two_servers(uri: str, folder: Path) -> Iterator[tuple[Lake, list[str]]]:
    """Two servers of one lake with its catalog in PostgreSQL, as if they were two processes: they share no memory."""
    with ExitStack() as stack:
        lakes = [stack.enter_context(moulin.connect(uri, storage=str(folder))) for _ in range(2)]
        lakes[0].create_database("shop")
        yield lakes[0], [stack.enter_context(served(lake)) for lake in lakes]


def test_appends_of_many_writers_all_succeed_without_retries(lake: Lake) -> None:
    with served(lake) as address:
        make(address, REBASING)
        append_from_all(lake, [address], writers=6, commits=4)
    assert check(lake.own_catalog()) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_32_writers_lose_none_of_1600_appends(lake: Lake) -> None:
    with served(lake) as address:
        make(address, REBASING)
        append_from_all(lake, [address], writers=32, commits=50, processes=4)
    assert check(lake.own_catalog()) == []


@pytest.mark.postgres
@pytest.mark.sample(1)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("writers", "commits"), [(4, 3), (32, 10)])
def test_appends_through_two_servers_all_succeed(postgres_url: str, tmp_path: Path, writers: int, commits: int) -> None:
    with two_servers(postgres_url, tmp_path / "lake") as (lake, addresses):
        make(addresses[0], REBASING)
        append_from_all(lake, addresses, writers, commits)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("writers", "commits"), [(4, 3), (16, 5)])
def test_overwrites_and_deletes_commit_within_a_few_tries(lake: Lake, writers: int, commits: int) -> None:
    with served(lake) as address:
        make(address, NO_RETRIES)
        tries = overwrite_from_all(lake, [address], writers, commits, most_tries=4)
    assert sum(tries.values()) == writers * commits
    assert check(lake.own_catalog()) == []


@pytest.mark.postgres
@pytest.mark.sample(1)
@pytest.mark.parametrize(("writers", "commits"), [(4, 2), (16, 4)])
def test_turns_hold_between_servers(postgres_url: str, tmp_path: Path, writers: int, commits: int) -> None:
    with two_servers(postgres_url, tmp_path / "lake") as (lake, addresses):
        make(addresses[0], NO_RETRIES)
        overwrite_from_all(lake, addresses, writers, commits, most_tries=4)


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    with served(lake) as address:
        make(address, NO_RETRIES)
        yield address


def lose(address: str, lake: Lake) -> httpx.Response:
    """A commit of a client of its own that lost a race, with the answer it got."""
    with Client(address) as client:
        written = Written(address, client)
        lake.table("shop.t").append([{"id": 9, "name": "ours"}])
        answer = written.send()
        assert answer.status_code == 409
        return answer


def test_a_writer_that_lost_is_told_to_come_back_and_others_wait_for_it(address: str, lake: Lake) -> None:
    lost = lose(address, lake)
    assert lost.headers["Retry-After"] == "0"
    assert lost.headers["Set-Cookie"].startswith("moulin-turn=")
    order: list[str] = []

    def other() -> None:
        with Client(address) as client:
            update = {"action": "set-properties", "updates": {"a": "1"}}
            assert client.post(T, json={"requirements": [], "updates": [update]}).status_code == 200
            order.append("other")

    waiting = threading.Thread(target=other)
    waiting.start()
    time.sleep(0.3)
    with Client(address, cookies=dict(lost.cookies)) as client:
        assert Written(address, client).send().status_code == 200
        order.append("first")
    waiting.join()
    assert order == ["first", "other"]


def test_turns_that_nobody_takes_end_and_their_token_gets_no_more(
    address: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moulin.iceberg.rest.turns.LEASE_SECONDS", 0.4)
    answers = [lose(address, lake) for _ in range(3)]
    assert all("Set-Cookie" in answer.headers for answer in answers), "each waits until the turn before has ended"
    time.sleep(0.5)
    again = lose(address, lake)
    assert "Set-Cookie" not in again.headers
    assert again.headers["Retry-After"] == "1"
    with Client(address) as client:
        assert Written(address, client).send().status_code == 200, "nobody is held up by then"
    honest = httpx.Headers({"Authorization": "Bearer another"})
    with Client(address, headers=honest) as client:
        written = Written(address, client)
        lake.table("shop.t").append([{"id": 9, "name": "ours"}])
        assert "Set-Cookie" in written.send().headers, "another token has its turns"


def test_queues_are_short(lake: Lake) -> None:
    pool = lake.own_catalog().pool
    taken = [turns.take(pool, ["a"], "token", "c", 5, most=8, most_of_token=5) for _ in range(7)]
    assert [one is not None for one in taken] == [True] * 5 + [False] * 2
    others = [turns.take(pool, ["a"], "other", "c", 5, most=8, most_of_token=5) for _ in range(5)]
    assert [one is not None for one in others] == [True] * 3 + [False] * 2
    assert [one.name for one in turns.queue(pool, "a")] == [one for one in [*taken, *others] if one]
    assert turns.queue(pool, "b") == []
