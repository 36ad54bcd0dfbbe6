"""A read-only table at one version. As a context manager it pins the version, so that clean-up keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import Any

import pyarrow as pa

from moulin.errors import FailedPrecondition, InvalidInput, NotFound
from moulin.model.entities import TableState
from moulin.model.key.key import Key
from moulin.model.schema.arrow import shown_schema
from moulin.model.tags import shown
from moulin.model.where import Where
from moulin.table.context import Context
from moulin.table.keyed.key_scan import KeyScan
from moulin.table.keyed.lookup import Lookup, located_blob
from moulin.table.keyed.version import KeyedVersion
from moulin.table.pins import Hold
from moulin.table.read.blob import Blob, check_blob_column, stored_blob
from moulin.table.read.hidden import SEGMENT, SHOWN_POSITION
from moulin.table.read.order import OrderBy
from moulin.table.read.scan import Scan
from moulin.table.read.take import TakeScan, checked_ids, take_rows


class Snapshot:
    """One version of a table. Thread-safe."""

    def __init__(self, context: Context, state: TableState) -> None:
        self._context, self._state = context, state
        self._hold: Hold | None = None

    @property
    def version(self) -> int:
        """The version.

        >>> shown = lake.table("shop.orders").at(version=lake.version)
        >>> shown.version == lake.version
        True
        """
        return self._state.version

    @property
    def schema(self) -> pa.Schema:
        """The columns at this version as a pyarrow.Schema.

        >>> shown = lake.table("shop.orders").at(version=lake.version)
        >>> shown.schema.names
        ['id', 'customer', 'amount']
        """
        return shown_schema(self._state.schema)

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties at this version by name.

        >>> shown = lake.table("shop.orders").at(version=lake.version)
        >>> dict(shown.properties)
        {}
        """
        return shown(self._state.properties)

    @property
    def state(self) -> TableState:
        """Everything that the catalog knows about the table at this version, except its segments.

        >>> shown = lake.table("shop.orders").at(version=lake.version)
        >>> shown.state.full_name
        'shop.orders'
        """
        return self._state

    def is_in(self, context: Context) -> bool:
        """Whether the table is in the lake of `context`."""
        return self._context.catalog.uuid == context.catalog.uuid

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Where = None,
        limit: int | None = None,
        *,
        order_by: OrderBy = None,
        start: Any = None,
        end: Any = None,
        prefix: Any = None,
        reverse: bool = False,
        ordered: bool = False,
        go_on: Callable[[], None] | None = None,
    ) -> Scan:
        """Scan this version; a keyed table in key order if a range, `reverse` or `ordered` is given.

        `order_by` sorts rows as in `Table.scan`. Without a range or key order, `go_on` is called before each
        part is read, and may raise to end the scan.

        >>> shown = lake.table("shop.orders").at(version=lake.version)
        >>> shown.scan(["id"], where="amount > 5").to_pylist()
        [{'id': 1}]
        """
        if self._hold is not None:
            self._hold.check()
        c = self._context
        if start is not None or end is not None or prefix is not None or reverse or ordered:
            options = {"start": start, "end": end, "prefix": prefix, "reverse": reverse, "ordered": ordered}
            return KeyScan(c, self._seen, None, columns=columns, where=where, limit=limit, order_by=order_by, **options)
        options = {"columns": columns, "where": where, "limit": limit, "indexes": c.secondary, "pins": c.pins}
        return Scan(c.catalog, c.store, c.vectors, self._state, order_by=order_by, go_on=go_on, **options)

    def take(self, row_ids: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows with these `_row_id`s in this version, in this order; unknown ids are skipped.

        >>> shown = lake.table("shop.orders").at(version=lake.version)
        >>> shown.take([0], ["customer"]).to_pylist()
        [{'customer': 'ann'}]
        """
        if self._hold is not None:
            self._hold.check()
        c, ids = self._context, checked_ids(row_ids)
        return take_rows(TakeScan(c.catalog, c.store, c.vectors, self._state, ids, columns, c.pins), ids, columns)

    def blob(self, key: Any = None, column: str = "", *, row_id: int | None = None) -> Blob:
        """Open a value of a binary column in this version as a file, like `Table.blob`.

        >>> photos = lake.create_table("shop.photos", [("id", "long", False), ("image", "binary")], primary_key=["id"])
        >>> photos.put({"id": 1, "image": b"GIF89a..."})
        >>> shown = photos.at(version=photos.flush())
        >>> with shown.blob(1, "image") as image:
        ...     image.read(3)
        b'GIF'
        """
        check_blob_column(self._state, column)
        if row_id is None:
            columns = self._key()
            return located_blob(self._context, self._lookup, self._seen, columns, key, column)
        if key is not None:
            raise InvalidInput("Give either a key or a row_id for a blob.")
        found = self.take([row_id], [SEGMENT, SHOWN_POSITION])
        if not found.num_rows:
            raise NotFound(f"Table {self._state.full_name} has no row with _row_id {row_id}.")
        number, position = (found.column(name)[0].as_py() for name in (SEGMENT, SHOWN_POSITION))
        live = self._context.catalog.segments_by_number(self._state.id, [number], self._state.version)
        return stored_blob(self._context, self._state, live[number], position, column)

    def get(self, key: Any) -> dict[str, Any] | None:
        """Return the row of a key in this version, or None.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> users.put({"name": "ann", "age": 41})
        >>> users.at(version=users.flush()).get("ann")
        {'name': 'ann', 'age': 41}
        """
        columns = self._key()
        return self._lookup.get(lambda: self._seen, columns, columns.check(key))

    def get_many(self, keys: Sequence[Any]) -> list[dict[str, Any] | None]:
        """Return the row of each key in this version, or None, in the order of the keys.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> users.put({"name": "ann", "age": 41})
        >>> users.at(version=users.flush()).get_many(["bob", "ann"])
        [None, {'name': 'ann', 'age': 41}]
        """
        columns = self._key()
        checked = [columns.check(key) for key in keys]
        lookup = self._lookup
        found = lookup.get_many(self._seen, columns, list(dict.fromkeys(checked)), lookup.age())
        return [lookup.copy(found[key]) if key in found else None for key in checked]

    def _key(self) -> Key:
        key = Key.of(self._state.schema)
        if key is None:
            raise FailedPrecondition(f"Table {self._state.full_name} has no primary key: use scan.")
        return key

    @cached_property
    def _seen(self) -> KeyedVersion:
        segments = self._context.catalog.segments(self._state.id, self._state.version, with_columns=False)
        return KeyedVersion(self._state, tuple(segments), 0.0)

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self._context)

    def count(self) -> int:
        """None

        >>> shown = lake.table("shop.orders").at(version=lake.version)
        >>> shown.count()
        1
        """
        return self.scan().count()

    def __enter__(self) -> Snapshot:
        self._hold = self._context.pins.hold(self._state.id, self._state.version)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._hold is not None:
            self._hold.release()
            self._hold = None
