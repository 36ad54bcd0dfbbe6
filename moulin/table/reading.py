"""Reads the rows of a table: by key, by `where`, by row id, and as objects of other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from moulin.errors import FailedPrecondition
from moulin.model.entities import TableState
from moulin.model.where import Where
from moulin.table.handle import TableHandle
from moulin.table.keyed.key_scan import KeyScan
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.keyed.pending import Pending
from moulin.table.keyed.reader import KeyedReader
from moulin.table.read.blob import Blob
from moulin.table.read.order import OrderBy
from moulin.table.read.scan import Scan
from moulin.table.read.turns import TURNS
from moulin.table.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas
    import polars

    from moulin.table.read.dataset import TableDataset


class TableReading(TableHandle):
    """The read methods of `Table`. Every call sees the newest version, unless the table is `read_only`."""

    _found: KeyedTable | None = None  # the keyed table, after the first read by key

    # Rows by key

    def get(self, key: Any) -> dict[str, Any] | None:
        """Return the row of a key, or None. A key of several columns is a tuple.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> users.put({"name": "ann", "age": 41})
        >>> users.get("ann"), users.get("bob")
        ({'name': 'ann', 'age': 41}, None)
        """
        return (self._keyed_only() if self._shown is None else self._fixed_reader()).get(key)

    def get_many(self, keys: Sequence[Any]) -> list[dict[str, Any] | None]:
        """Return the row of each key, or None, in the order of the keys.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> users.put({"name": "ann", "age": 41})
        >>> users.get_many(["bob", "ann"])
        [None, {'name': 'ann', 'age': 41}]
        """
        return (self._keyed_only() if self._shown is None else self._fixed_reader()).get_many(keys)

    def __getitem__(self, key: Any) -> dict[str, Any]:
        """Return the row of a key; raises KeyError if there is none.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> users.put({"name": "ann", "age": 41})
        >>> users["ann"], "bob" in users
        ({'name': 'ann', 'age': 41}, False)
        """
        row = self.get(key)
        if row is None:
            raise KeyError(key)
        return row

    def __contains__(self, key: Any) -> bool:
        """Whether there is a row with this key."""
        return self.get(key) is not None

    __iter__ = None  # [] takes keys, not positions: iterate over table.scan()

    # Rows

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Where = None,
        version: int | None = None,
        limit: int | None = None,
        *,
        order_by: OrderBy = None,
        start: Any = None,
        end: Any = None,
        prefix: Any = None,
        reverse: bool = False,
        ordered: bool = False,
    ) -> Scan:
        """Scan the newest version, or `version`. Nothing is read until a method of the result is called.

        In a keyed table, unflushed puts are included. There, `start` (inclusive) and `end`
        (exclusive) are keys or their first columns, and `prefix` is the first columns of the wanted keys. Rows are in
        key order if one of these, `reverse` or `ordered` is given.

        `order_by` sorts by one or more columns: `"ts desc"`, `["region", "ts desc"]`. Nulls come first in
        ascending and last in descending columns, and NaN is greater than every number. With `limit`, segments that can
        hold the first rows are read first, and others only if they may hold better rows.

        >>> orders = lake.table("shop.orders")
        >>> orders.scan(["id", "amount"], "amount > 5 and customer like 'a%'", order_by="id desc", limit=10).to_pylist()
        [{'id': 1, 'amount': 9.5}]
        """
        options = {
            "order_by": order_by,
            "start": start,
            "end": end,
            "prefix": prefix,
            "reverse": reverse,
            "ordered": ordered,
        }
        with TURNS:
            state = self._known_state(version)
            keyed = (
                self._to_scan() if version is None and (state is None or state.schema.identifier_field_ids) else None
            )
            if keyed is not None:
                by_key = ordered or reverse or not (start is None and end is None and prefix is None)
                seen, pending = Pending.of(self._context, keyed, ordered=by_key)
                return KeyScan(self._context, seen, pending, columns=columns, where=where, limit=limit, **options)
            snapshot = Snapshot(self._context, self._state(version) if state is None else state)
            return snapshot.scan(columns, where, limit, **options)

    def head(self, rows: int = 10) -> pa.Table:
        """Return at most `rows` rows, in no particular order.

        >>> lake.table("shop.orders").head(2).column_names
        ['id', 'customer', 'amount']
        """
        return self.scan(limit=rows).to_arrow()

    def count(self, where: Where = None) -> int:
        """Return the number of rows, or of rows that match. Without `where` no file is read.

        >>> lake.table("shop.orders").count("amount > 100")
        0
        """
        return self.scan(where=where).count()

    def to_arrow(self, columns: Sequence[str] | None = None, where: Where = None) -> pa.Table:
        """Return all rows, or those that match, as an Arrow table.

        >>> lake.table("shop.orders").to_arrow(["id"]).num_rows
        1
        """
        return self.scan(columns, where).to_arrow()

    def to_pandas(self, columns: Sequence[str] | None = None, where: Where = None) -> pandas.DataFrame:
        """Return all rows, or those that match, as a pandas DataFrame.

        >>> lake.table("shop.orders").to_pandas().shape
        (1, 3)
        """
        return self.scan(columns, where).to_pandas()

    def to_polars(self, columns: Sequence[str] | None = None, where: Where = None) -> polars.DataFrame:
        """Return all rows, or those that match, as a polars DataFrame.

        >>> lake.table("shop.orders").to_polars(where="amount > 5").height
        1
        """
        return self.scan(columns, where).to_polars()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows as an Arrow stream: `duckdb.sql("from orders")`, `polars.DataFrame(orders)`."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def dataset(self) -> TableDataset:
        """Return the table as a pyarrow dataset that pushes columns and filters down. Each read sees the newest rows.

        DuckDB and others push theirs down to it. What does not match is not read. Comparisons are those of Arrow, for
        which NaN is neither less nor greater than any number; `lake.duckdb()` and `lazy` compare as their engines do.

        >>> import duckdb
        >>> orders = lake.table("shop.orders").dataset()
        >>> duckdb.sql("select count(*) from orders where id = 1").fetchall()
        [(1,)]
        """
        from moulin.table.read.dataset import TableDataset

        return TableDataset(self.scan, self.schema, self.name)

    def lazy(self) -> polars.LazyFrame:
        """Return the table as a polars lazy frame that pushes columns and filters down.

        >>> import polars as pl
        >>> lake.table("shop.orders").lazy().filter(pl.col("id") == 1).select("amount").collect().rows()
        [(9.5,)]
        """
        try:
            import polars  # noqa: F401 - what follows needs it
        except ModuleNotFoundError:
            raise FailedPrecondition("lazy needs polars: pip install polars.") from None
        from moulin.table.read.lazy_frame import lazy_frame

        return lazy_frame(self.scan, self.schema)

    def take(self, row_ids: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows with these `_row_id`s, in this order, repeated ids included.

        Ids of deleted and unknown rows are skipped; add `_row_id` to `columns` to see which were found. Puts
        of a keyed table are flushed first. Only segments and row groups that may hold a row are read.

        >>> orders = lake.table("shop.orders")
        >>> (row_id,) = orders.scan(["_row_id"]).to_arrow()["_row_id"].to_pylist()
        >>> orders.take([row_id], ["customer"]).to_pylist()
        [{'customer': 'ann'}]
        """
        self._flush()
        return Snapshot(self._context, self._state()).take(row_ids, columns)

    def blob(self, key: Any = None, column: str = "", *, row_id: int | None = None) -> Blob:
        """Open a value of a binary column as a file, by the key or the `_row_id` of its row.

        The row is located at once. The first read reads the page with the value, and no other row or
        column. A null reads as an empty file with `is_null`. Close the file to release its version. With `row_id`,
        puts are flushed first. Raises NotFound if there is no such row.

        >>> photos = lake.create_table("shop.photos", [("id", "long", False), ("image", "binary")], primary_key=["id"])
        >>> photos.put({"id": 1, "image": b"GIF89a..."})
        >>> with photos.blob(1, "image") as image:
        ...     image.read(3)
        b'GIF'
        """
        if row_id is not None:
            self._flush()
            return Snapshot(self._context, self._state()).blob(key, column, row_id=row_id)
        return (self._keyed_only() if self._shown is None else self._fixed_reader()).blob(key, column)

    def _repr_html_(self) -> str:
        """Its columns, for notebooks."""
        from moulin.notebook import html_table

        if self._closed:
            return html_table("A closed table", ["column"], [])
        state, entry = self._state(), self._context.catalog.table_entry(self.id)
        keys = state.schema.identifier_field_ids
        rows = [
            (one.name, one.field_type, "key" if one.field_id in keys else "required" if one.required else "", one.doc)
            for one in state.schema.fields
        ]
        caption = f"Table {state.full_name}: {entry.rows:,} rows in {entry.segments:,} segments at version "
        return html_table(f"{caption}{state.head_version}", ["column", "type", "", "comment"], rows)

    def _flush(self) -> None:
        """Commit puts and logs of dead writers, for readers of versions only; see `settle`."""
        if not self._read_only and (keyed := self._keyed()) is not None:
            keyed.flush()
            keyed.committed()

    def _known_state(self, version: int | None) -> TableState | None:
        """The state to scan; None for a keyed table with rows in memory."""
        if self._closed or self._shown is not None or self.id in self._context.keyed:
            return None
        return self._state(version)

    def _to_scan(self) -> KeyedReader | None:
        """What a scan of a keyed table reads besides segments; None for other tables."""
        if self._shown is None:
            return self._keyed()
        return self._fixed_reader() if self._may_have_left() else None

    def _keyed_only(self) -> KeyedTable:
        if self._found is None:
            self._found = self._keyed()
        if self._found is None:
            raise FailedPrecondition(
                f"Table {self.name} has no primary key, which put, get and delete need: use append, scan or "
                f"delete_where."
            )
        return self._found


__all__ = ["TableReading"]
