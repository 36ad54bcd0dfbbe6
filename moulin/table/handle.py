"""TableHandle: which table an object stands for, which version it shows, and what may be done with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

import pyarrow as pa

from moulin.errors import Closed, FailedPrecondition, InvalidInput
from moulin.model.arrow import arrow_schema
from moulin.model.entities import TableState
from moulin.model.operations import Operation
from moulin.model.refs import shown
from moulin.table.change import SettingChange, after_commit
from moulin.table.context import Context
from moulin.table.keyed import KeyedTable, keyed_table
from moulin.table.writes import Outcome


class TableHandle:
    """What every part of `Table` builds on. Holds no state of the table but its id.

    One that is `read_only` shows the version it was opened at until `refresh`; `follow` makes the catalog look for
    newer ones, where it does not see them by itself.
    """

    def __init__(
        self, context: Context, table_id: UUID, *, read_only: bool = False, follow: Callable[[], int] | None = None
    ) -> None:
        self._context = context
        self.id = table_id
        self._read_only = read_only
        self._closed = False
        self._follow = follow
        self._shown = context.catalog.table_by_id(table_id).version if read_only else None

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    @property
    def name(self) -> str:
        return self._state().full_name

    @property
    def version(self) -> int:
        """The last version that changed this table."""
        return self._state().head_version

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self._state().schema)

    @property
    def properties(self) -> Mapping[str, str]:
        return shown(self._state().properties)

    def state(self, version: int | None = None) -> TableState:
        """Everything the catalog knows of the table but its segments, at `version` or now."""
        return self._state(version)

    def refresh(self) -> int:
        """The version of the lake that reads see from now on. Only a table opened read-only needs it to see newer ones.

        Reads under way go on with the version they began with.
        """
        self._require_open()
        if self._follow is not None:
            self._follow()
        newest = self._context.catalog.table_by_id(self.id).version
        if self._read_only:
            self._shown = newest
        return newest

    def _state(self, version: int | None = None) -> TableState:
        self._require_open()
        return self._context.catalog.table_by_id(self.id, self._shown if version is None else whole_number(version))

    def _writable(self) -> TableState:
        state = self._state()
        if self._closed:
            raise Closed("The table was closed; open it again with lake.table(...).")
        if self._read_only:
            raise FailedPrecondition(f"Table {state.full_name} was opened read-only; open it for writing first.")
        return state

    def _require_open(self) -> None:
        if self._closed and self.id not in self._context.keyed:
            raise Closed("The table was closed; open it again with lake.table(...).")

    def _set(self, operation: Operation) -> Outcome:
        state = self._writable()
        change = SettingChange(self.id, state.version, operation)
        version = self._context.committer.commit([change]).version
        if self.id in self._context.keyed:
            with after_commit():
                self._context.keyed[self.id].refresh()
        return Outcome(version)

    def _keyed(self) -> KeyedTable | None:
        """This table as a keyed one; None when it has no key."""
        return keyed_table(self._context, self.id)


def whole_number(version: object) -> int:
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidInput(f"A version is a whole number, not {version!r}.")
    return version
