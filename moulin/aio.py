"""Moulin for asyncio programs such as application servers: calls run in threads and do not block the event loop.

    import moulin.aio

    async with await moulin.aio.connect("./lake") as lake:
        users = await lake.table("shop.users")
        await users.put({"name": "ann", "age": 41})
        row = await users.get("ann")
        async for batch in users.scan(where="age > 30"):
            ...

A lake has `threads` threads of its own. That many calls run at once, and others wait. Concurrent puts share
one sync of the log. If the task of a call is cancelled, the call still completes; only the waiting ends.
To call anything without a method here, use `lake.run(function, ...)` with the synchronous objects in `sync`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

import moulin
from moulin.errors import InvalidInput

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

    from moulin.model.entities import Database, TableEntry
    from moulin.model.where import Where
    from moulin.table.read.scan import Scan
    from moulin.table.table import Table
    from moulin.table.write.writes import Outcome

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")
_THREADS = 16


async def connect(uri: str | Path, *, threads: int = _THREADS, **options: Any) -> AsyncLake:
    """Open a lake; `options` are those of `moulin.connect`."""
    if threads < 1:
        raise InvalidInput(f"A lake needs at least one thread, not {threads}.")
    pool = ThreadPoolExecutor(threads, thread_name_prefix="moulin-aio")
    try:
        return AsyncLake(await _run(pool, moulin.connect, uri, **options), pool)
    except BaseException:
        pool.shutdown(wait=False)
        raise


async def _run(
    pool: ThreadPoolExecutor, function: Callable[_Given, _Result], *args: _Given.args, **options: _Given.kwargs
) -> _Result:
    return await asyncio.get_running_loop().run_in_executor(pool, partial(function, *args, **options))


class AsyncLake:
    """A lake with awaitable methods. `sync` is the synchronous lake."""

    def __init__(self, lake: moulin.Lake, pool: ThreadPoolExecutor) -> None:
        self.sync, self._pool = lake, pool

    def __repr__(self) -> str:
        return f"Async{self.sync!r}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def run(self, function: Callable[_Given, _Result], *args: _Given.args, **options: _Given.kwargs) -> _Result:
        """Call a function in a thread of the lake: `await lake.run(lake.sync.publish, "exp")`."""
        return await _run(self._pool, function, *args, **options)

    async def create_database(self, name: str, *, if_not_exists: bool = False) -> Database:
        return await self.run(self.sync.create_database, name, if_not_exists=if_not_exists)

    async def create_table(self, name: str, schema: Any, **options: Any) -> AsyncTable:
        """Create a table; `options` are those of `Lake.create_table`."""
        return AsyncTable(self, await self.run(self.sync.create_table, name, schema, **options))

    async def table(self, name: str, *, read_only: bool = False) -> AsyncTable:
        return AsyncTable(self, await self.run(self.sync.table, name, read_only=read_only))

    async def tables(self, database: str | None = None) -> list[TableEntry]:
        return await self.run(self.sync.tables, database)

    async def flush(self) -> None:
        await self.run(self.sync.flush)

    async def close(self) -> None:
        """Close the lake after all running calls have completed."""
        await asyncio.get_running_loop().run_in_executor(None, self._end)

    def _end(self) -> None:
        self._pool.shutdown()
        self.sync.close()


class AsyncTable:
    """A table with awaitable methods. `sync` is the synchronous table."""

    def __init__(self, lake: AsyncLake, table: Table) -> None:
        self.sync, self._lake = table, lake

    def __repr__(self) -> str:
        return f"Async{self.sync!r}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def get(self, key: Any) -> dict[str, Any] | None:
        return await self._lake.run(self.sync.get, key)

    async def get_many(self, keys: Sequence[Any]) -> list[dict[str, Any] | None]:
        return await self._lake.run(self.sync.get_many, keys)

    async def put(self, row: Mapping[str, Any]) -> None:
        await self._lake.run(self.sync.put, row)

    async def put_batch(self, data: object) -> int:
        return await self._lake.run(self.sync.put_batch, data)

    async def delete(self, key: Any) -> None:
        await self._lake.run(self.sync.delete, key)

    async def delete_batch(self, keys: Sequence[Any]) -> None:
        await self._lake.run(self.sync.delete_batch, keys)

    async def append(self, data: object, *, request_id: str | None = None, evolve: bool = False) -> Outcome:
        return await self._lake.run(self.sync.append, data, request_id=request_id, evolve=evolve)

    async def update(self, set: Mapping[str, object], where: Where = None) -> Outcome:
        return await self._lake.run(self.sync.update, set, where)

    async def delete_where(self, where: Where) -> Outcome:
        return await self._lake.run(self.sync.delete_where, where)

    async def flush(self) -> int:
        return await self._lake.run(self.sync.flush)

    async def count(self, where: Where = None) -> int:
        return await self._lake.run(self.sync.count, where)

    def scan(self, columns: Sequence[str] | None = None, where: Where = None, **options: Any) -> AsyncScan:
        """A lazy scan; `options` are those of `Table.scan`."""
        return AsyncScan(self._lake, partial(self.sync.scan, columns, where, **options))

    async def close(self) -> None:
        await self._lake.run(self.sync.close)


class AsyncScan:
    """Rows of a table. Each method runs the scan again, as in `Scan`."""

    def __init__(self, lake: AsyncLake, make: Callable[[], Scan]) -> None:
        self._lake, self._make = lake, make

    def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        return self.to_batches()

    async def to_batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Stream the rows. Each batch is read on demand; leaving the loop releases the version."""
        batches = await self._lake.run(lambda: self._make().to_batches())
        try:
            while (batch := await self._lake.run(next, batches, None)) is not None:
                yield batch
        finally:
            await asyncio.shield(self._lake.run(batches.close))

    async def to_arrow(self) -> pa.Table:
        return await self._lake.run(lambda: self._make().to_arrow())

    async def to_pandas(self) -> pandas.DataFrame:
        return await self._lake.run(lambda: self._make().to_pandas())

    async def to_polars(self) -> polars.DataFrame:
        return await self._lake.run(lambda: self._make().to_polars())

    async def to_pylist(self) -> list[dict[str, Any]]:
        return await self._lake.run(lambda: self._make().to_pylist())

    async def head(self, rows: int = 10) -> pa.Table:
        return await self._lake.run(lambda: self._make().head(rows))

    async def count(self) -> int:
        return await self._lake.run(lambda: self._make().count())


__all__ = ["AsyncLake", "AsyncScan", "AsyncTable", "connect"]
