"""Decides the table of each decoded row, for the nursery and the fresh lane alike.

A row goes to the table that its resource attribute `moulin.table` names, in the database of its token: the name is used
whole, including dots. If there is no such table, or it lacks columns of the signal, the row goes to the token's table
for the signal, and is counted as a fallback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import numpy as np
import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.ingest.otlp.otlp import Decoded
from moulin.model.columns.arrays import Integers, distinct
from moulin.model.ingest import RoutedTable, TokenRouting
from moulin.model.otel import Signal


@dataclass(frozen=True, slots=True)
class Routed:
    """The rows of each table, how many fell back, and how many belong to unknown tokens.

    `requests` are the indexes of the requests that gave rows to each table.
    """

    rows: Mapping[UUID, pa.Table]
    fallen_back: int
    unknown: Mapping[UUID, int]
    requests: Mapping[UUID, Integers] = field(default_factory=dict)


class Router:
    """The routing of one moment, as `StreamList` has it. `takes` says whether a table has the columns of a signal."""

    def __init__(
        self,
        routing: Iterable[TokenRouting],
        tables: Iterable[RoutedTable],
        takes: Callable[[UUID, Signal], bool],
    ) -> None:
        self._routing = {found.token_id: found for found in routing}
        known = tuple(tables)
        self._tables = {(table.database_id, table.name): table.id for table in known if not table.retired}
        self._dropped = {(table.database_id, table.name): table.id for table in known if table.retired}
        self._takes = takes

    def target(self, token_id: UUID, signal: Signal, name: str | None) -> tuple[UUID | None, bool]:
        """The table of rows of a token that name a table, or name none; and whether they fell back to it."""
        token = self._routing.get(token_id)
        if token is None:
            return None, False
        own: UUID = getattr(token.routing, signal)
        if name is None:
            return own, False
        named = self._tables.get((token.database_id, name))
        if named is None or not self._takes(named, signal):
            return own, True
        return named, False

    def appended(self, token_id: UUID, name: str) -> UUID | None:
        """The table of rows that were sent for one by name. A dropped one takes them while it can come back."""
        token = self._routing.get(token_id)
        if token is None:
            return None
        key = token.database_id, name
        return self._tables.get(key) or self._dropped.get(key)

    def split(self, signal: Signal, decoded: Decoded, tokens: Sequence[UUID]) -> Routed:
        """The decoded rows by table; `tokens` are those of the requests that were decoded."""
        if not decoded.rows.num_rows:
            return Routed({}, 0, {})
        names = decoded.route.dictionary_encode()
        index = np.asarray(names.indices.fill_null(-1)).astype(np.int64) + 1
        known = [None, *names.dictionary.to_pylist()]
        ids = list(dict.fromkeys(tokens))
        token_index = np.array([ids.index(token) for token in tokens], np.int64)
        pairs, whose = np.unique(token_index[decoded.request] * len(known) + index, return_inverse=True)
        counts = np.bincount(whose)
        parts: dict[UUID, list[int]] = {}
        fallen_back, unknown = 0, dict[UUID, int]()
        for pair, count in enumerate(counts.tolist()):
            token, name = divmod(int(pairs[pair]), len(known))
            table, fell_back = self.target(ids[token], signal, known[name])
            if table is None:
                unknown[ids[token]] = unknown.get(ids[token], 0) + count
                continue
            parts.setdefault(table, []).append(pair)
            fallen_back += count if fell_back else 0
        if len(parts) == 1 and not unknown:
            table = next(iter(parts))
            return Routed({table: decoded.rows}, fallen_back, {}, {table: distinct(decoded.request)})
        indexes = {table: np.flatnonzero(np.isin(whose, some)) for table, some in parts.items()}
        return Routed(
            {table: decoded.rows.take(some) for table, some in indexes.items()},
            fallen_back,
            unknown,
            {table: distinct(decoded.request[some]) for table, some in indexes.items()},
        )


def fit(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows in the columns of a table; further ones are null. InvalidInput when it lacks one that holds something."""
    lacking = [
        name
        for name in rows.column_names
        if (name not in schema.names or schema.field(name).type != rows.schema.field(name).type)
        and rows[name].null_count < rows.num_rows
    ]
    if lacking:
        raise InvalidInput(f"The table has no columns for {', '.join(lacking)}: add them, or route to another table.")
    columns = [
        rows[field.name] if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type) for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
