"""Scans: plan with the catalog's statistics, read only what may match, stream with bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa
from pyroaring import BitMap64

from moulin.catalog.backend import CatalogBackend
from moulin.errors import Erased, InvalidInput, NotFound
from moulin.formats.segment.reader import SegmentReader
from moulin.model.columns.arrays import Integers
from moulin.model.entities import TableState
from moulin.model.facts import ColumnFacts, LiveSegment
from moulin.model.names import did_you_mean
from moulin.model.predicate import Predicate
from moulin.model.rows.nano_datetime import to_rows
from moulin.model.schema.arrow import empty_table, show, shown_schema
from moulin.model.where import Where
from moulin.storage import paths
from moulin.storage.store import Store
from moulin.storage.table_store import Lost
from moulin.table.commit.vectors import VectorCache
from moulin.table.find.index_files import SecondaryIndexes
from moulin.table.find.index_search import Narrowed, narrow
from moulin.table.pins import Hold, Pins
from moulin.table.read.footers import open_reader
from moulin.table.read.frames import to_pandas, to_polars
from moulin.table.read.hidden import (
    SEGMENT,
    SHOWN_POSITION,
    HiddenColumns,
    hidden_facts,
    hidden_names,
    parse_hidden,
)
from moulin.table.read.order import Order, OrderBy, parse_order
from moulin.table.read.ordered import FirstRows, positions_by_segment, read_positions
from moulin.table.read.quarantine import refuse_quarantined
from moulin.table.read.turns import TURNS
from moulin.table.read.units import UnitReader, read_ahead

if TYPE_CHECKING:
    import pandas
    import polars


_SHOWN_ROWS = 10  # in a notebook
_Unit = TypeVar("_Unit")


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The segments that may hold matching rows, and the number of segments of the version.

    `index_skipped` were excluded only by secondary indexes, `index_narrowed` are read only in some
    row groups.
    """

    segments: tuple[LiveSegment, ...]
    total: int
    index_skipped: int = 0
    index_narrowed: int = 0


def plan_segments(
    catalog: CatalogBackend, state: TableState, predicate: Predicate, facts_of: Set[int] = frozenset()
) -> list[LiveSegment]:
    """Prune by partition and event time in SQL, then by the bounds of each segment.

    Segments have statistics only of the columns in the predicate and in `facts_of`.
    """
    refuse_quarantined(catalog, state)
    if predicate.is_false:
        return []
    time_range = (None, None) if state.event_time is None else predicate.time_range(state.event_time)
    if time_range is None:
        return []
    filtered = not predicate.is_true
    partitioned = any(spec.fields for spec in state.specs.values())

    def may_hold(spec_id: int, partition: tuple[bytes | None, ...]) -> bool:
        return predicate.may_match_partition(state.specs[spec_id], state.schema, partition)

    found = catalog.segments(
        state.id,
        state.version,
        partition_filter=may_hold if filtered and partitioned else None,
        time_range=time_range,
        with_columns=filtered or bool(facts_of),
        columns=predicate.field_ids | facts_of,
    )
    if not filtered:
        return found
    return [s for s in found if predicate.may_match(facts_by_field(s), s.facts.rows)]


class Scan:
    """Rows of one version. Nothing is read before one of the methods is called; each call reads again."""

    def __init__(
        self,
        catalog: CatalogBackend,
        store: Store,
        vectors: VectorCache,
        state: TableState,
        *,
        columns: Sequence[str] | None = None,
        where: Where = None,
        limit: int | None = None,
        order_by: OrderBy = None,
        indexes: SecondaryIndexes | None = None,
        pins: Pins | None = None,
        go_on: Callable[[], None] | None = None,
    ) -> None:
        """`go_on` is called by the reader's thread before each part; an exception from it ends the scan."""
        if limit is not None and limit < 0:
            raise InvalidInput(f"limit must be zero or more, not {limit}.")
        self._catalog, self._store, self._vectors, self._state = catalog, store, vectors, state
        self._indexes, self._pins = indexes, pins or Pins(catalog)
        self._go_on = go_on
        self._predicate, tested = parse_hidden(where, state.schema)
        self._limit, self._order = limit, parse_order(order_by, state.schema)
        # How many rows of a unit are needed; None for all.
        self._first = limit if self._order is None else None
        self._columns = _checked_columns(columns, state)
        self._hidden = HiddenColumns(hidden_names(state.schema, columns or ()), tested)
        self.schema = self._output_schema(columns)

    def plan(self) -> ScanPlan:
        """The segments to read after pruning.

        >>> plan = lake.table("shop.orders").scan(where="amount > 100").plan()
        >>> len(plan.segments), plan.total
        (0, 1)
        """
        kept = self._planned()
        total = self._catalog.segments(self._state.id, self._state.version, with_columns=False)
        return ScanPlan(tuple(kept.segments), len(total), kept.skipped, len(kept.positions))

    def to_batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Stream the rows, segment by segment, with bounded read-ahead.

        The version is pinned until the last row, or until `close`.

        >>> [batch.num_rows for batch in lake.table("shop.orders").scan().to_batches()]
        [1]
        """
        return self._batches(self._hold())

    def _batches(self, hold: Hold) -> Generator[pa.RecordBatch, None, None]:
        left = self._limit
        if left == 0:
            return
        for table in self._held(hold):
            for batch in table.to_batches(max_chunksize=self._catalog.config.scan_batch_rows):
                if left is not None and batch.num_rows >= left:
                    yield batch.slice(0, left)
                    return
                if left is not None:
                    left -= batch.num_rows
                if batch.num_rows:
                    yield batch

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches, like `to_batches`."""
        return self.to_batches()

    def head(self, rows: int = 10) -> pa.Table:
        """Return at most the first `rows` rows.

        >>> lake.table("shop.orders").scan(order_by="amount desc").head(5).num_rows
        1
        """
        most = rows if self._limit is None else min(rows, self._limit)
        if most < 0:
            raise InvalidInput(f"head takes zero rows or more, not {rows}.")
        return self._limited(most).to_arrow()

    def _limited(self, limit: int) -> Self:
        limited = copy(self)
        limited._limit, limited._first = limit, limit if self._order is None else None
        return limited

    def __repr__(self) -> str:
        parts = [f"<Scan of {self._state.full_name} at version {self._state.head_version}"]
        parts += [] if self._columns is None else [f"columns={self.schema.names!r}"]
        parts += [] if self._predicate.is_true else [f"where={self._predicate.describe()!r}"]
        parts += [] if self._limit is None else [f"limit={self._limit}"]
        return ", ".join(parts) + ">"

    def _repr_html_(self) -> str:
        """The first rows, for notebooks."""
        from moulin.notebook import html_table

        rows = to_rows(self.head(_SHOWN_ROWS))
        return html_table(repr(self), self.schema.names, [tuple(row.values()) for row in rows])

    def to_arrow(self) -> pa.Table:
        """All rows as one table.

        >>> lake.table("shop.orders").scan(["id", "amount"]).to_arrow().column_names
        ['id', 'amount']
        """
        if self._limit is None:
            return pa.concat_tables([empty_table(self.schema), *self._held(self._hold())])
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The stream as a RecordBatchReader, for DuckDB and others.

        >>> import duckdb
        >>> rows = lake.table("shop.orders").scan().to_reader()
        >>> duckdb.sql("select sum(amount) from rows").fetchall()
        [(9.5,)]
        """
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a pandas DataFrame.

        >>> lake.table("shop.orders").scan(["amount"]).to_pandas()["amount"].sum()
        np.float64(9.5)
        """
        return to_pandas(self.to_arrow())

    def to_polars(self) -> polars.DataFrame:
        """All rows as a polars DataFrame, as `polars.DataFrame(scan)` does too; `polars.from_arrow` makes a Series.

        >>> lake.table("shop.orders").scan(["amount"]).to_polars()["amount"].sum()
        9.5
        """
        return to_polars(self.to_arrow())

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dictionaries; times in nanoseconds are NanoDatetime.

        >>> lake.table("shop.orders").scan().to_pylist()
        [{'id': 1, 'customer': 'ann', 'amount': 9.5}]
        """
        return to_rows(self.to_arrow())

    def count(self) -> int:
        """The number of rows: from statistics without `where`, else from the columns in `where`.

        >>> lake.table("shop.orders").scan(where="customer = 'ann'").count()
        1
        """
        if self._predicate.is_true:
            refuse_quarantined(self._catalog, self._state)
            rows = self._catalog.count_rows(self._state.id, self._state.version)
        else:
            options: dict[str, Any] = {"columns": [], "indexes": self._indexes, "pins": self._pins}
            bare = Scan(self._catalog, self._store, self._vectors, self._state, **options)
            bare._predicate, bare._hidden = self._predicate, replace(self._hidden, shown=())
            rows = sum(table.num_rows for table in bare._held(bare._hold()))
        return rows if self._limit is None else min(rows, self._limit)

    def _output_schema(self, columns: Sequence[str] | None) -> pa.Schema:
        full = shown_schema(self._state.schema)
        if columns is None:
            return full
        hidden = {field.name: field for field in self._hidden.fields}
        return pa.schema([hidden.get(name) or full.field(name) for name in columns], full.metadata)

    def _hold(self) -> Hold:
        """Pin the version; the plan, which follows, finds out whether it is still kept."""
        with TURNS:
            return self._pins.hold(self._state.id, self._state.version, check=False)

    def _held(self, hold: Hold) -> Iterator[pa.Table]:
        """The rows; `hold` pins the version while they are read."""
        with hold:
            try:
                for table in TURNS.during(self._tables() if self._order is None else self._sorted(self._order)):
                    hold.check()
                    yield table
            except (NotFound, Lost) as error:
                hold.check(ask=True)  # a lost pin explains why a file is missing
                raise_if_erased(self._catalog, self._state, error)
                raise

    def _tables(self) -> Iterator[pa.Table]:
        """The result rows, in the order in which they are read."""
        yield from self._committed(self._superseded())

    def _superseded(self) -> Mapping[int, BitMap64]:
        """Deleted positions of segments, besides those in deletion vectors."""
        return {}

    def _in_memory(self) -> pa.Table | None:
        """Matching rows that are not in a segment."""
        return None

    def _in_parts(self) -> bool:
        """Whether the rows are those of the planned segments and of `_in_memory`."""
        return True

    def _sorted(self, order: Order) -> Iterator[pa.Table]:
        """The ordered result rows as one table."""
        own = [field.name for field in self._state.schema.fields] if self._columns is None else self._columns
        columns = [*own, *(name for name in order.names if name not in own)]
        if self._limit and self._in_parts():
            tables = self._first_rows(order, columns, self._limit)
        else:
            wide = copy(self)
            wide._order, wide._columns, wide._limit = None, columns, None
            wide.schema = self._output_schema([*columns, *self._hidden.shown])
            tables = list(wide._tables())
        if tables:
            schema = tables[0].schema
            table = pa.concat_tables([t if t.schema == schema else t.select(schema.names).cast(schema) for t in tables])
            yield self._finish(order.sorted(table, self._limit))

    def _first_rows(self, order: Order, columns: list[str], limit: int) -> list[pa.Table]:
        """The first rows in order, and possibly others."""
        planned, gone, ahead = self._planned(), self._superseded(), self._catalog.config.scan_ahead_bytes
        ranked = [(s, order.best(facts_by_field(s), s.facts.rows)) for s in planned.segments]
        late = len(columns) > len(order.names) and not self._own_hidden()
        hidden = replace(self._hidden, shown=(SEGMENT, SHOWN_POSITION)) if late else self._hidden
        read = self._unit_reader(list(order.names) if late else columns, gone, planned.positions, hidden=hidden)
        found = FirstRows(order, limit, ranked, read, self._open, ahead).find(self._watched)
        shown = [*columns, *self._hidden.shown]
        tables = [] if found is None or late else [found.select(shown)]
        if late and found is not None:
            at = positions_by_segment(found)
            hidden = replace(self._hidden, tested=())
            read = self._unit_reader(columns, {}, at, hidden=hidden, predicate=Predicate.everything(self._state.schema))
            tables = read_positions(read, planned.segments, at)
        rest = self._in_memory()
        if rest is not None and rest.num_rows:
            tables.append(rest.select(shown))
        return tables

    def _own_hidden(self) -> bool:
        """Whether a column of the table has the name of a hidden position column."""
        return len(hidden_names(self._state.schema, (SEGMENT, SHOWN_POSITION))) < 2

    def _open(self, segment: LiveSegment) -> SegmentReader:
        return open_reader(self._store, segment.facts, self._state.schema, columns=[])

    def _committed(self, gone: Mapping[int, BitMap64]) -> Iterator[pa.Table]:
        """Rows of segments, except those at the positions `gone`."""
        planned = self._planned()
        read = self._unit_reader(self._columns, gone, planned.positions)
        limit = self._catalog.config.scan_ahead_bytes
        units = self._watched(read.units(planned.segments, limit))
        for table in read_ahead(read, units, limit, few=self._limit is not None):
            yield self._finish(table)

    def _watched(self, units: Iterable[_Unit]) -> Iterator[_Unit]:
        for unit in units:
            if self._go_on is not None:
                self._go_on()
            yield unit

    def _unit_reader(
        self,
        columns: list[str] | None,
        gone: Mapping[int, BitMap64],
        positions: Mapping[int, Integers],
        *,
        hidden: HiddenColumns | None = None,
        predicate: Predicate | None = None,
    ) -> UnitReader:
        hidden = self._hidden if hidden is None else hidden
        hidden = hidden.looked_up(self._catalog, self._state.id)
        return UnitReader(
            self._store,
            self._vectors,
            self._state,
            self._predicate if predicate is None else predicate,
            columns,
            hidden,
            gone,
            positions,
            most=self._first,
            by_pages=self._catalog.config.scan_by_pages == "on",
        )

    def _planned(self) -> Narrowed:
        """The plan, after pruning by statistics and by secondary indexes."""
        facts_of = frozenset() if self._order is None else frozenset((self._order.first.field_id,))
        segments = plan_segments(self._catalog, self._state, self._predicate, facts_of)
        if tested := self._hidden.tested:
            segments = [
                s
                for s in segments
                if self._predicate.may_match({**facts_by_field(s), **hidden_facts(s, tested)}, s.facts.rows)
            ]
        if self._indexes is None or self._predicate.is_true:
            return Narrowed(segments)
        return narrow(self._catalog, self._indexes, self._state, self._predicate, segments)

    def _finish(self, table: pa.Table) -> pa.Table:
        if table.schema.names != self.schema.names:
            table = table.select(self.schema.names)
        return show(table, self.schema)


def _checked_columns(columns: Sequence[str] | None, state: TableState) -> list[str] | None:
    if columns is None:
        return None
    if isinstance(columns, str):
        raise InvalidInput(f"columns must be a list of names: use columns=[{columns!r}].")
    known = [field.name for field in state.schema.fields]
    for name in columns:
        if name not in known and not hidden_names(state.schema, [name]):
            raise InvalidInput(
                f"Table {state.full_name} has no column {name!r}.{did_you_mean(name, known)} It has: "
                f"{', '.join(known)}."
            )
    if len(set(columns)) != len(columns):
        raise InvalidInput("columns names a column twice.")
    return [name for name in columns if name in known]


def facts_by_field(segment: LiveSegment) -> Mapping[int, ColumnFacts]:
    """Column facts of a segment by field id."""
    return {facts.field_id: facts for facts in segment.facts.columns}


def raise_if_erased(catalog: CatalogBackend, state: TableState, error: Exception) -> None:
    """Raise Erased if a file is missing because of an erase, which replaced it."""
    path = error.path if isinstance(error, Lost) else ""
    number = paths.segment_number(path)
    if number is None:
        return
    found = catalog.segments_by_number(state.id, [number], state.version).get(number)
    if found is None or found.facts.path != path.replace(".keys", ".parquet"):
        raise Erased(
            f"Rows of {state.full_name} were erased while version {state.version} was being read: read it again.",
            requirement=f"segment {number}",
            expected=path,
            found=None if found is None else found.facts.path,
        ) from error
