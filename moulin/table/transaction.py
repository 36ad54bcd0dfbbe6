"""Transactions: changes of several tables that become one version, or nothing."""

# Decisions: docs/decisions/0047

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any
from uuid import UUID

from pyroaring import BitMap64

from moulin.errors import Closed, Unsupported
from moulin.model.entities import TableState
from moulin.model.operations import Kind, SetProperties
from moulin.model.where import Where
from moulin.table.commit.change import Change, DataChange, SettingChange
from moulin.table.context import Context
from moulin.table.properties import check_properties
from moulin.table.read.scan import Scan
from moulin.table.snapshot import Snapshot
from moulin.table.write.writes import prepare_append, prepare_delete, prepare_overwrite


class Transaction:
    """Collects changes and commits them when its `with` block ends well; an exception drops them all.

    Reads see the version that the transaction began at, not its own changes. `version` is set by the commit.
    """

    def __init__(self, context: Context, resolve: Callable[[str], UUID]) -> None:
        self._context, self._resolve = context, resolve
        self._data: dict[UUID, DataChange] = {}
        self._settings: list[Change] = []
        self._open = False
        self.read_version = context.catalog.version()
        self.version: int | None = None

    def table(self, name: str) -> TransactionTable:
        """A table to change within this transaction."""
        self._require_open()
        state = self._context.catalog.table_by_id(self._resolve(name), self.read_version)
        return TransactionTable(self, self._context, state)

    def __enter__(self) -> Transaction:
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        changes = [*self._settings, *(c for c in self._data.values() if _has_effect(c))]
        if kind is None and changes:
            self.version = self._context.committer.commit(changes).version

    def _stage(self, change: DataChange | SettingChange) -> None:
        self._require_open()
        if isinstance(change, SettingChange):
            self._settings.append(change)
        elif change.table_id not in self._data or change.everything:
            self._data[change.table_id] = change
        else:
            self._data[change.table_id] = _combine(self._data[change.table_id], change)

    def _require_open(self) -> None:
        if not self._open:
            raise Closed("The transaction is not open; use it inside its `with` block.")


class TransactionTable:
    """One table inside a transaction."""

    def __init__(self, transaction: Transaction, context: Context, state: TableState) -> None:
        self._transaction, self._context, self._state = transaction, context, state

    def append(self, data: object) -> None:
        self._require_no_key()
        self._transaction._stage(prepare_append(self._context, self._state, data))

    def delete_where(self, where: Where) -> int:
        """Delete rows of the version that the transaction reads; returns how many."""
        self._require_no_key()
        change, rows = prepare_delete(self._context, self._state, where)
        self._transaction._stage(change)
        return rows

    def overwrite(self, data: object, where: Where = None) -> None:
        self._require_no_key()
        added = prepare_append(self._context, self._state, data).added
        change, _ = prepare_overwrite(self._context, self._state, added, where)
        self._transaction._stage(change)

    def set_properties(self, properties: Mapping[str, Any], *, remove: Sequence[str] = ()) -> None:
        operation = SetProperties(check_properties(properties), tuple(remove))
        self._transaction._stage(SettingChange(self._state.id, self._state.version, operation))

    def _require_no_key(self) -> None:
        """Rows of a keyed table are found and replaced by their keys, which needs its regions held: not here."""
        if self._state.schema.identifier_field_ids:
            raise Unsupported(
                f"Table {self._state.full_name} has a primary key, and a transaction cannot change its rows: use put, "
                "append, delete_where or overwrite of the table itself. Each of them is one version."
            )

    def scan(self, columns: Sequence[str] | None = None, where: Where = None, limit: int | None = None) -> Scan:
        return Snapshot(self._context, self._state).scan(columns, where, limit)


def _has_effect(change: DataChange) -> bool:
    return bool(change.added or change.positions or change.whole or change.everything)


def _combine(first: DataChange, second: DataChange) -> DataChange:
    """Both changes of one table as one; both were read from the same version."""
    whole = {**first.whole, **second.whole}
    positions = dict(first.positions)
    for number, bitmap in second.positions.items():
        positions[number] = positions.get(number, BitMap64()) | bitmap
    positions = {number: bitmap for number, bitmap in positions.items() if number not in whole}
    added = (*first.added, *second.added)
    deletes = bool(whole or positions or first.everything)
    kind = Kind.APPEND if not deletes else Kind.OVERWRITE if added else Kind.DELETE
    return replace(first, kind=kind, added=added, positions=positions, whole=whole)
