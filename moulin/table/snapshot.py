"""A table at one version, read-only. As a context manager it pins the version, so that clean-up leaves it readable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from uuid import UUID

import pyarrow as pa

from moulin.model.arrow import arrow_schema
from moulin.model.entities import TableState
from moulin.model.where import Where
from moulin.table.context import Context
from moulin.table.scan import Scan


class Snapshot:
    """One version of a table. Thread-safe."""

    def __init__(self, context: Context, state: TableState) -> None:
        self._context, self._state = context, state
        self._pin: UUID | None = None

    @property
    def version(self) -> int:
        return self._state.version

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self._state.schema)

    @property
    def properties(self) -> Mapping[str, str]:
        return dict(self._state.properties)

    @property
    def state(self) -> TableState:
        return self._state

    def scan(self, columns: Sequence[str] | None = None, where: Where = None, limit: int | None = None) -> Scan:
        """Rows of this version."""
        if self._pin is not None:
            self._context.catalog.renew_pin(self._pin)
        c = self._context
        return Scan(c.catalog, c.store, c.vectors, self._state, columns=columns, where=where, limit=limit)

    def count(self) -> int:
        return self.scan().count()

    def __enter__(self) -> Snapshot:
        self._pin = self._context.catalog.pin(self._state.id, self._state.version)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pin is not None:
            self._context.catalog.unpin(self._pin)
            self._pin = None
