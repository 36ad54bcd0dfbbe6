"""The change feed: the changes of the rows of a table between two versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from moulin.catalog.segments.feed import FeedEntry, FeedSegment
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.model.entities import TableState
from moulin.model.names import did_you_mean
from moulin.model.rows.nano_datetime import to_rows
from moulin.model.schema.values import IcebergType, ListType, MapType, NestedField, Schema, StructType
from moulin.model.where import Where, parse_where
from moulin.table.context import Context
from moulin.table.pins import Hold
from moulin.table.read.feed_reader import CHANGE_TYPE, COMMIT_TIMESTAMP, FEED_FIELDS, FeedReader, fresh_rows
from moulin.table.read.feed_schemas import shown_as_now
from moulin.table.read.frames import to_pandas, to_polars
from moulin.table.read.quarantine import refuse_quarantined

if TYPE_CHECKING:
    import pandas
    import polars


class Feed:
    """Rows that changed in the versions after `since`, up to `until`. Nothing is read until a method is
    called; each call reads again.

    `_change_type` is insert, update_before, update_after or delete; `_row_id` identifies the row; `_version` and
    `_commit_timestamp` are the commit. The columns are those of the table at `until`. Versions are in order; within
    one, removed rows come before added rows. With `net`, only the two versions are compared: `_version` is then the
    version that wrote the row, or `until` for rows that were deleted or restored. With `whole`, all rows at `until` are
    reported as inserted.
    """

    def __init__(
        self,
        context: Context,
        state: TableState,
        since: int,
        *,
        columns: Sequence[str] | None = None,
        where: Where = None,
        net: bool = False,
        whole: bool = False,
    ) -> None:
        self._context, self._state, self._net, self._whole = context, state, net, whole
        self._table_id = state.id
        self.since, self.until = since, state.version
        names = check_columns(state, columns)
        schema = optional(state.schema)
        predicate = parse_where(where, schema)
        self._is_plain = where is None
        self._reader = FeedReader(context.store, schema, names, predicate, context.config.scan_batch_rows)
        self.schema: pa.Schema = self._reader.arrow_schema

    def bounded(self, go_on: Callable[[], None]) -> Feed:
        """The same feed, but calls `go_on` between batches; an exception from it ends the reading."""
        found = copy(self)
        found._reader = replace(self._reader, go_on=go_on)
        return found

    def to_batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Stream the rows of the feed. The versions are pinned until the last row, or until `close`.

        >>> orders = lake.table("shop.orders")
        >>> for batch in orders.changes(orders.history()[-1].version).to_batches():
        ...     print(batch["_change_type"].to_pylist())
        ['insert']
        """
        return self._read(self._reader)

    def to_arrow(self) -> pa.Table:
        """All rows as one table.

        >>> orders = lake.table("shop.orders")
        >>> orders.changes(orders.history()[-1].version).to_arrow().column_names
        ['_change_type', '_row_id', '_version', '_commit_timestamp', 'id', 'customer', 'amount']
        """
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The stream as a RecordBatchReader, for DuckDB and others.

        >>> orders = lake.table("shop.orders")
        >>> orders.changes(orders.history()[-1].version).to_reader().schema.names[:2]
        ['_change_type', '_row_id']
        """
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a pandas DataFrame.

        >>> orders = lake.table("shop.orders")
        >>> orders.changes(orders.history()[-1].version).to_pandas()["_change_type"].tolist()
        ['insert']
        """
        return to_pandas(self.to_arrow())

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dictionaries; times in nanoseconds are NanoDatetime.

        >>> orders = lake.table("shop.orders")
        >>> [(row["_change_type"], row["id"]) for row in orders.changes(orders.history()[-1].version).to_pylist()]
        [('insert', 1)]
        """
        return to_rows(self.to_arrow())

    def to_polars(self) -> polars.DataFrame:
        """All rows as a polars DataFrame.

        >>> orders = lake.table("shop.orders")
        >>> orders.changes(orders.history()[-1].version).to_polars()["_change_type"].to_list()
        ['insert']
        """
        return to_polars(self.to_arrow())

    def counts(self) -> dict[str, int]:
        """The number of rows of each `_change_type`. Reads the same data as `count`, and nothing of rows that
        statistics show to be new.

        >>> orders = lake.table("shop.orders")
        >>> orders.changes(orders.history()[-1].version).counts()
        {'insert': 1}
        """
        found: Counter[str] = Counter()
        reader = replace(self._reader, columns=())
        for entry, hold in self._entries():
            if self._is_plain and (rows := fresh_rows(entry)) is not None:
                found["insert"] += rows
                continue
            for batch in reader.read(entry, self._context.vectors):
                hold.check()
                for change in batch.column(CHANGE_TYPE).value_counts():
                    found[change["values"].as_py()] += change["counts"].as_py()
        return dict(found)

    def count(self) -> int:
        """The number of rows. Reads only the columns in `where`, and stored row ids.

        >>> orders = lake.table("shop.orders")
        >>> orders.changes(orders.history()[-1].version).count()
        1
        """
        return sum(batch.num_rows for batch in self._read(replace(self._reader, columns=())))

    def _read(self, reader: FeedReader) -> Generator[pa.RecordBatch, None, None]:
        return self._batches(reader, self._entries())

    def _batches(
        self, reader: FeedReader, entries: Generator[tuple[FeedEntry, Hold], None, None]
    ) -> Generator[pa.RecordBatch, None, None]:
        with closing(entries):
            for entry, hold in entries:
                for batch in reader.read(entry, self._context.vectors):
                    hold.check()
                    yield batch

    def _entries(self) -> Generator[tuple[FeedEntry, Hold], None, None]:
        """The changes of the versions, pinned from this call on."""
        return self._held(None if self.since == self.until and not self._whole else self._hold())

    def _held(self, hold: Hold | None) -> Generator[tuple[FeedEntry, Hold], None, None]:
        if hold is None:
            return
        catalog = self._context.catalog
        with hold:
            refuse_quarantined(catalog, self._state)
            if self._whole:
                entries = iter([self._all()])
            else:
                entries = catalog.feed(self._table_id, self.since, self.until, net=self._net)
            for entry in shown_as_now(self._state, entries):
                yield entry, hold
                hold.check()

    def _all(self) -> FeedEntry:
        """All rows of the table as an entry of its feed."""
        live = self._context.catalog.segments(self._table_id, self.until, with_columns=False)
        last = self._context.catalog.history(self._table_id, 1)[0]
        return FeedEntry(self.until, last.timestamp_ns, 0, tuple(FeedSegment(None, segment) for segment in live))

    def _hold(self) -> Hold:
        """Pin all versions of the feed."""
        try:
            hold = self._context.pins.hold(self._table_id, self.since, check=False)
        finally:
            # raises for versions that are not kept
            self._context.catalog.state_until(self._table_id, self.since, self.until)
        return hold


def check_columns(state: TableState, columns: Sequence[str] | None) -> tuple[str, ...]:
    """The table's columns to return, which must not have names of the feed's own columns."""
    known = [field.name for field in state.schema.fields]
    if COMMIT_TIMESTAMP in known:
        raise FailedPrecondition(
            f"Table {state.full_name} has a column {COMMIT_TIMESTAMP}, but its change feed needs that name: rename "
            f"the column."
        )
    if columns is None:
        return tuple(known)
    if isinstance(columns, str):
        raise InvalidInput(f"columns must be a list of names: use columns=[{columns!r}].")
    own = [field.name for field in FEED_FIELDS]
    for name in columns:
        if name not in known and name not in own:
            raise InvalidInput(
                f"Table {state.full_name} has no column {name!r}.{did_you_mean(name, known)} It has: "
                f"{', '.join(known)}."
            )
    if len(set(columns)) != len(columns):
        raise InvalidInput("columns names a column twice.")
    return tuple(name for name in columns if name in known)


def optional(schema: Schema) -> Schema:
    """The schema with all columns nullable: a feed has rows from before a column was added, or after it was dropped."""
    return Schema(*(_optional_field(field) for field in schema.fields), schema_id=schema.schema_id)


def _optional_field(field: NestedField) -> NestedField:
    return replace(field, field_type=_optional_type(field.field_type), required=False)


def _optional_type(kind: IcebergType) -> IcebergType:
    match kind:
        case StructType():
            return StructType(*(_optional_field(field) for field in kind.fields))
        case ListType():
            return replace(kind, element_type=_optional_type(kind.element_type), element_required=False)
        case MapType():
            value = _optional_type(kind.value_type)
            return MapType(kind.key_id, kind.key_type, kind.value_id, value, value_required=False)
        case _:
            return kind
