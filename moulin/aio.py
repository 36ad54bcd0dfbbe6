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
    """Open a lake; `options` are those of `moulin.connect`.

    >>> other = await moulin.aio.connect("./other", threads=4)
    >>> await other.close()
    """
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
        """Call a function in a thread of the lake.

        >>> (await lake.run(lake.sync.create_database, "crm")).name
        'crm'
        """
        return await _run(self._pool, function, *args, **options)

    async def create_database(self, name: str, *, if_not_exists: bool = False) -> Database:
        """Create a database.

        >>> (await lake.create_database("web")).name
        'web'
        """
        return await self.run(self.sync.create_database, name, if_not_exists=if_not_exists)

    async def create_table(self, name: str, schema: Any, **options: Any) -> AsyncTable:
        """Create a table; `options` are those of `Lake.create_table`.

        >>> await lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        AsyncTable('shop.users')
        """
        return AsyncTable(self, await self.run(self.sync.create_table, name, schema, **options))

    async def table(self, name: str, *, read_only: bool = False) -> AsyncTable:
        """Open a table.

        >>> await lake.table("shop.orders")
        AsyncTable('shop.orders')
        """
        return AsyncTable(self, await self.run(self.sync.table, name, read_only=read_only))

    async def tables(self, database: str | None = None) -> list[TableEntry]:
        """The tables of a database, or of all.

        >>> [table.name for table in await lake.tables("shop")]
        ['orders']
        """
        return await self.run(self.sync.tables, database)

    async def flush(self) -> None:
        """Commit rows that were put into keyed tables.

        >>> await lake.flush()
        """
        await self.run(self.sync.flush)

    async def close(self) -> None:
        """Close the lake after all running calls have completed.

        >>> await lake.close()
        """
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
        """The row of a key, or None.

        >>> await users.get("ann")
        {'name': 'ann', 'age': 41}
        """
        return await self._lake.run(self.sync.get, key)

    async def get_many(self, keys: Sequence[Any]) -> list[dict[str, Any] | None]:
        """Return the row of each key, or None, in the order of the keys.

        >>> await users.get_many(["bob", "ann"])
        [None, {'name': 'ann', 'age': 41}]
        """
        return await self._lake.run(self.sync.get_many, keys)

    async def put(self, row: Mapping[str, Any]) -> None:
        """Insert or replace one row; it is in the log when this returns.

        >>> await users.put({"name": "bob", "age": 7})
        """
        await self._lake.run(self.sync.put, row)

    async def put_batch(self, data: object) -> int:
        """Insert or replace rows; returns how many.

        >>> await users.put_batch([{"name": "bob", "age": 7}, {"name": "eve", "age": 8}])
        2
        """
        return await self._lake.run(self.sync.put_batch, data)

    async def delete(self, key: Any) -> None:
        """Delete the row of a key.

        >>> await users.delete("ann")
        """
        await self._lake.run(self.sync.delete, key)

    async def delete_batch(self, keys: Sequence[Any]) -> None:
        """Delete the rows of keys.

        >>> await users.delete_batch(["ann", "bob"])
        """
        await self._lake.run(self.sync.delete_batch, keys)

    async def append(self, data: object, *, request_id: str | None = None, evolve: bool = False) -> Outcome:
        """Commit rows as one version. A table with a key is upserted into.

        >>> (await orders.append([{"id": 2, "amount": 3.0}], request_id="monday")).rows_added
        1
        """
        return await self._lake.run(self.sync.append, data, request_id=request_id, evolve=evolve)

    async def update(self, set: Mapping[str, object], where: Where = None) -> Outcome:
        """Change columns of the rows that match.

        >>> (await orders.update({"amount": "amount * 2"}, "id = 1")).rows_updated
        1
        """
        return await self._lake.run(self.sync.update, set, where)

    async def delete_where(self, where: Where) -> Outcome:
        """Delete the rows that match.

        >>> (await orders.delete_where("id = 1")).rows_deleted
        1
        """
        return await self._lake.run(self.sync.delete_where, where)

    async def flush(self) -> int:
        """Commit what was put; returns the version that has it.

        >>> await users.put({"name": "bob", "age": 7})
        >>> await users.flush() == users.sync.version
        True
        """
        return await self._lake.run(self.sync.flush)

    async def count(self, where: Where = None) -> int:
        """How many rows match.

        >>> await orders.count("amount > 5")
        1
        """
        return await self._lake.run(self.sync.count, where)

    def scan(self, columns: Sequence[str] | None = None, where: Where = None, **options: Any) -> AsyncScan:
        """A lazy scan; `options` are those of `Table.scan`.

        >>> await orders.scan(["id"], "amount > 5").to_pylist()
        [{'id': 1}]
        """
        return AsyncScan(self._lake, partial(self.sync.scan, columns, where, **options))

    async def close(self) -> None:
        """Close the table: what was put is flushed.

        >>> await users.close()
        """
        await self._lake.run(self.sync.close)


class AsyncScan:
    """Rows of a table. Each method runs the scan again, as in `Scan`."""

    def __init__(self, lake: AsyncLake, make: Callable[[], Scan]) -> None:
        self._lake, self._make = lake, make

    def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        return self.to_batches()

    async def to_batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Stream the rows. Each batch is read on demand; leaving the loop releases the version.

        >>> async def sizes():
        ...     return [batch.num_rows async for batch in orders.scan()]
        >>> await sizes()
        [1]
        """
        batches = await self._lake.run(lambda: self._make().to_batches())
        try:
            while (batch := await self._lake.run(next, batches, None)) is not None:
                yield batch
        finally:
            await asyncio.shield(self._lake.run(batches.close))

    async def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table.

        >>> (await orders.scan().to_arrow()).num_rows
        1
        """
        return await self._lake.run(lambda: self._make().to_arrow())

    async def to_pandas(self) -> pandas.DataFrame:
        """All rows as a pandas DataFrame.

        >>> (await orders.scan().to_pandas())["amount"].sum()
        np.float64(9.5)
        """
        return await self._lake.run(lambda: self._make().to_pandas())

    async def to_polars(self) -> polars.DataFrame:
        """All rows as a polars DataFrame.

        >>> (await orders.scan().to_polars())["amount"].sum()
        9.5
        """
        return await self._lake.run(lambda: self._make().to_polars())

    async def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dictionaries.

        >>> await orders.scan(["id", "customer"]).to_pylist()
        [{'id': 1, 'customer': 'ann'}]
        """
        return await self._lake.run(lambda: self._make().to_pylist())

    async def head(self, rows: int = 10) -> pa.Table:
        """The first rows.

        >>> (await orders.scan().head(1)).num_rows
        1
        """
        return await self._lake.run(lambda: self._make().head(rows))

    async def count(self) -> int:
        """How many rows.

        >>> await orders.scan(where="id = 1").count()
        1
        """
        return await self._lake.run(lambda: self._make().count())


__all__ = ["AsyncLake", "AsyncScan", "AsyncTable", "connect"]
