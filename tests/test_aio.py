"""Lakes on asyncio: the loop goes on while a lake works, and what is cancelled or left loses nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import moulin.aio
from moulin.errors import Closed, InvalidInput, NotFound

USERS = [("name", "string", False), ("age", "int")]


def _with_users(folder: Path, work: Callable[[moulin.aio.AsyncLake, moulin.aio.AsyncTable], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with await moulin.aio.connect(folder) as lake:
            await lake.create_database("shop", if_not_exists=True)
            users = await lake.create_table("shop.users", USERS, primary_key=["name"], if_not_exists=True)
            return await work(lake, users)

    return asyncio.run(run())


def test_rows_are_put_and_read(tmp_path: Path) -> None:
    async def work(lake: moulin.aio.AsyncLake, users: moulin.aio.AsyncTable) -> None:
        await users.put({"name": "ann", "age": 41})
        assert await users.put_batch([{"name": "bob", "age": 7}, {"name": "eve", "age": 30}]) == 2
        assert await users.get("ann") == {"name": "ann", "age": 41}
        assert await users.get_many(["bob", "none"]) == [{"name": "bob", "age": 7}, None]
        await users.delete("eve")
        await users.delete_batch(["nobody"])
        await users.flush()
        assert (await users.append([{"name": "zoe", "age": 50}])).rows_added == 1
        assert (await users.update({"age": "age + 1"}, "name = 'bob'")).rows_updated == 1
        assert (await users.delete_where("age = 50")).rows_deleted == 1
        assert await users.count() == await users.scan().count() == 2
        assert await users.scan(["name"], "age < 10").to_pylist() == [{"name": "bob"}]
        assert (await users.scan(ordered=True).to_arrow())["age"].to_pylist() == [41, 8]
        assert (await users.scan().head(1)).num_rows == 1
        assert (await users.scan().to_polars()).height == len(await users.scan().to_pandas()) == 2
        assert [one.name for one in await lake.tables()] == ["users"]
        assert await lake.run(lambda: lake.sync.version) > 0

    _with_users(tmp_path / "lake", work)


def test_calls_that_run_at_once_all_count(tmp_path: Path) -> None:
    async def work(_: moulin.aio.AsyncLake, users: moulin.aio.AsyncTable) -> int:
        await asyncio.gather(*(users.put({"name": f"user {number}", "age": number}) for number in range(300)))
        found = await asyncio.gather(*(users.get(f"user {number}") for number in range(300)))
        assert [row and row["age"] for row in found] == list(range(300))
        return await users.count()

    assert _with_users(tmp_path / "lake", work) == 300


def test_the_loop_goes_on_while_a_call_waits(tmp_path: Path) -> None:
    async def work(lake: moulin.aio.AsyncLake, users: moulin.aio.AsyncTable) -> None:
        gate = threading.Event()
        waiting = asyncio.ensure_future(lake.run(gate.wait))
        await users.put({"name": "ann", "age": 1})
        assert not waiting.done()
        gate.set()
        assert await waiting

    _with_users(tmp_path / "lake", work)


def test_batches_come_one_by_one_and_a_left_loop_lets_go(tmp_path: Path) -> None:
    async def work(lake: moulin.aio.AsyncLake, users: moulin.aio.AsyncTable) -> None:
        events = await lake.create_table("shop.events", [("id", "long")])
        for first in range(0, 30, 10):
            await events.append({"id": list(range(first, first + 10))})
        assert sum([batch.num_rows async for batch in events.scan()]) == 30
        batches = events.scan().to_batches()
        async for batch in batches:
            assert batch.num_rows
            break
        await batches.aclose()
        pins = lake.sync.context.pins
        pins._release_idle()
        assert not pins._rows

    _with_users(tmp_path / "lake", work)


def test_a_cancelled_put_is_done_or_not_and_the_lake_works_on(tmp_path: Path) -> None:
    async def work(_: moulin.aio.AsyncLake, users: moulin.aio.AsyncTable) -> None:
        task = asyncio.ensure_future(users.put({"name": "ann", "age": 1}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await users.put({"name": "bob", "age": 2})
        assert await users.get("bob") is not None
        assert await users.get("ann") in (None, {"name": "ann", "age": 1})

    _with_users(tmp_path / "lake", work)


def test_errors_are_those_of_the_lake(tmp_path: Path) -> None:
    async def work(lake: moulin.aio.AsyncLake, users: moulin.aio.AsyncTable) -> None:
        with pytest.raises(NotFound):
            await lake.table("shop.missing")
        with pytest.raises(InvalidInput):
            await users.put({"name": "ann", "what": 1})
        async with await lake.table("shop.users") as table:
            await table.put({"name": "ann", "age": 1})
        with pytest.raises(Closed):
            await table.put({"name": "bob", "age": 1})

    _with_users(tmp_path / "lake", work)
    with pytest.raises(InvalidInput, match="at least one thread"):
        asyncio.run(moulin.aio.connect(tmp_path / "lake", threads=0))
    with pytest.raises(InvalidInput, match="Unknown setting"):
        asyncio.run(moulin.aio.connect(tmp_path / "lake", what=1))


def test_what_was_put_is_there_after_the_lake_was_closed(tmp_path: Path) -> None:
    async def put(_: moulin.aio.AsyncLake, users: moulin.aio.AsyncTable) -> None:
        await asyncio.gather(*(users.put({"name": str(number), "age": number}) for number in range(50)))

    _with_users(tmp_path / "lake", put)
    with moulin.connect(tmp_path / "lake") as lake:
        assert lake.table("shop.users").count() == 50


def test_a_program_ends_when_its_lake_was_left_open(tmp_path: Path) -> None:
    program = f"""
import asyncio, moulin.aio
async def main():
    lake = await moulin.aio.connect({str(tmp_path / "lake")!r})
    await lake.create_database("shop")
    print(lake)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("AsyncLake(")
