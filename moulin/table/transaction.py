"""Transactions: changes of several tables that are committed as one version, or not at all."""

# Decisions: docs/decisions/0259

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any
from uuid import UUID

from moulin.errors import Closed, Conflict, FailedPrecondition, Fenced
from moulin.model.entities import TableState
from moulin.model.operations import Kind, SetProperties
from moulin.model.schema.change import AddColumn, DropColumn, RenameColumn, SchemaChange, WidenColumn
from moulin.model.schema.type_reader import to_type
from moulin.model.where import Where
from moulin.table.commit.change import Change
from moulin.table.context import Context
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.keyed.tables import flush_own, keyed_table
from moulin.table.properties import check_properties
from moulin.table.read.scan import Scan
from moulin.table.staged import Staged

_HARMLESS = {Kind.COMPACT, Kind.SET_PROPERTIES, Kind.CREATE_INDEX, Kind.UPDATE_INDEX, Kind.DROP_INDEX}


class Transaction:
    """Collects changes and commits them at the end of its `with` block; an exception discards them.

    Each change and each read sees the changes before it. Others do not see them
    before the commit, which sets `version`. If others change an event table, the transaction still sees the version
    at which it started. A keyed table is held from its first change to the commit, and read as of then. Only one thread
    may use a transaction.
    """

    def __init__(self, context: Context, resolve: Callable[[str], UUID]) -> None:
        self._context, self._resolve = context, resolve
        self._tables: dict[UUID, TransactionTable] = {}
        self._held = ExitStack()
        self._open = False
        self._thread = 0
        self.read_version = context.catalog.version()
        self.version: int | None = None

    def table(self, name: str) -> TransactionTable:
        """A table to read and change within this transaction.

        >>> with lake.transaction() as tx:
        ...     orders = tx.table("shop.orders")
        ...     orders.append([{"id": 2, "customer": "bob", "amount": 3.0}])
        ...     orders.scan(where="id = 2").count()
        1
        1
        """
        self._require_open()
        table_id = self._resolve(name)
        if table_id not in self._tables:
            state = self._context.catalog.table_by_id(table_id, self.read_version)
            self._tables[table_id] = TransactionTable(self, self._context, state)
        return self._tables[table_id]

    def __enter__(self) -> Transaction:
        flush_own(self._context)  # what earlier puts of this process are visible to the transaction
        self.read_version = self._context.catalog.version()
        self._open, self._thread = True, threading.get_ident()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        with self._held:
            changes: list[Change] = []
            for table in self._tables.values() if kind is None else ():
                changes += table._staged.changes()
            if changes:
                self.version = self._context.committer.commit(changes).version

    def _hold(
        self, keyed: KeyedTable, values: Sequence[tuple[bytes | None, ...]] | None = None
    ) -> tuple[Any, Sequence[Any]]:
        """Hold regions of a keyed table until the transaction ends."""
        if threading.get_ident() != self._thread:
            raise FailedPrecondition("A transaction can change keyed tables only in the thread that opened it.")
        try:
            return self._held.enter_context(keyed.held(values, reserved=True))
        except Fenced as error:
            raise Conflict(f"A transaction cannot hold the table now; retry. {error.message}") from error

    def _require_open(self) -> None:
        if not self._open:
            raise Closed("The transaction is not open; use it inside its `with` block.")


class TransactionTable:
    """One table inside a transaction. Each change sees the changes before it."""

    def __init__(self, transaction: Transaction, context: Context, state: TableState) -> None:
        self._transaction, self._context = transaction, context
        self._staged = Staged(context, state)
        self._keyed: KeyedTable | None = None  # the keyed table, once it is held
        self._was_read = False

    # Rows

    def append(self, data: object) -> int:
        """Add rows; in a keyed table, insert them or replace rows with the same keys. Returns the number of rows."""
        staged = self._changed()
        if self._keyed is None:
            return staged.append(data)
        batches = staged.batches(data)
        self._hold_new(self._keyed.regions_of(batches))
        return staged.upsert(self._keyed, batches)

    def delete_where(self, where: Where) -> int:
        """Delete the rows that match; returns their number."""
        return self._changed().delete(where)

    def overwrite(self, data: object, where: Where = None) -> None:
        """Replace all rows, or those that match, with the rows of `data`."""
        staged = self._changed()
        if self._keyed is None:
            staged.replace(data, where)
            return
        batches = staged.batches(data)  # if the data does not fit, the rows must not be deleted
        self._hold_new(self._keyed.regions_of(batches))
        staged.remove(where)
        staged.upsert(self._keyed, batches)

    def scan(self, columns: Sequence[str] | None = None, where: Where = None, limit: int | None = None) -> Scan:
        """The rows including the changes of the transaction so far."""
        self._transaction._require_open()
        self._was_read = True
        return self._staged.scan(columns, where, limit)

    # Settings

    def add_column(
        self, name: str, type: Any, default: Any = None, *, required: bool = False, doc: str | None = None
    ) -> None:
        """Add a column; rows without a value, old and new, read as `default`."""
        self._alter(AddColumn(name, to_type(type, f"column {name}"), default, required, doc))

    def rename_column(self, name: str, new_name: str) -> None:
        """Rename a column."""
        self._alter(RenameColumn(name, new_name))

    def drop_column(self, name: str) -> None:
        """Drop a column; older versions still have it."""
        self._alter(DropColumn(name))

    def widen_column(self, name: str, type: Any) -> None:
        """Change the type of a column to a wider one."""
        self._alter(WidenColumn(name, to_type(type, f"column {name}")))

    def set_properties(self, properties: Mapping[str, Any], *, remove: Sequence[str] = ()) -> None:
        """Set properties, and remove those in `remove`."""
        self._transaction._require_open()
        self._staged.set_properties(SetProperties(check_properties(properties), tuple(remove)))

    def _alter(self, change: SchemaChange) -> None:
        self._changed().alter(change)

    def _changed(self) -> Staged:
        """The table to change; a keyed table is held from here on, and read as of now."""
        self._transaction._require_open()
        staged = self._staged
        if self._keyed is None and staged.state.schema.identifier_field_ids:
            keyed = keyed_table(self._context, staged.state.id)
            assert keyed is not None
            keyed.ready()
            seen, uses = self._transaction._hold(keyed)
            if self._was_read:
                self._require_unread(seen.state)
            held = Staged(self._context, seen.state, seen.segments, tuple(uses))
            for operation in staged.properties:
                held.set_properties(operation)
            self._staged, self._keyed, staged = held, keyed, held
        return staged

    def _require_unread(self, now: TableState) -> None:
        """Rows of a keyed table that the transaction has read must not have changed when it first changes the table."""
        read = self._transaction.read_version
        for info in self._context.catalog.history(now.id) if now.head_version > read else ():
            if info.version > read and info.kind not in _HARMLESS:
                raise Conflict(
                    f"Table {now.full_name} was changed by the {info.kind} of version {info.version} after the "
                    f"transaction read it at version {read}. Nothing was committed: run the transaction again.",
                    requirement=f"the rows of {now.full_name}",
                    expected=f"as at version {read}",
                    found="changed",
                    winner=info.version,
                )

    def _hold_new(self, values: Sequence[tuple[bytes | None, ...]]) -> None:
        """Also hold regions that were created since the table was first held."""
        assert self._keyed is not None
        staged, held = self._staged, {use.number for use in self._staged.uses}
        catalog = self._context.catalog
        fresh = [value for value in values if catalog.region(staged.state.id, value).number not in held]
        if fresh:
            seen, uses = self._transaction._hold(self._keyed, fresh)
            numbers = {use.number for use in uses}
            staged.segments += tuple(s for s in seen.segments if s.facts.region in numbers)
            staged.uses += tuple(uses)


__all__ = ["Transaction", "TransactionTable"]
