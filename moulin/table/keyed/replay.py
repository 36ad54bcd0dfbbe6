"""Replay: entries of a log become memtables again, for the writer that claims it and for those who only read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from moulin.formats import log_entry
from moulin.formats.log_entry import EntryKind
from moulin.model.entities import TableState
from moulin.model.key.key import Key
from moulin.model.rows.record import RecordType
from moulin.model.schema.arrow import arrow_schema
from moulin.table.keyed.memtable import Memtable


def replay(
    entries: Iterable[tuple[int, bytes]], state: TableState, covered: int, limit: int, region: int
) -> tuple[Memtable, ...]:
    """Memtables of about `limit` bytes with what the entries say, the newest first; the oldest may be empty.

    Each has rows of one schema of the table; KeyError when an entry has one that `state` does not know.
    """
    first = Key.of(state.schema)
    assert first is not None
    active = Memtable(RecordType(state.schema), first, covered)
    memtables = [active]
    schema_id = None
    for position, payload in entries:
        entry = log_entry.decode(payload, source=f"Entry {position} of the log of region {region}")
        if entry.kind is not EntryKind.FENCE:
            if entry.schema_id != schema_id or active.size >= limit:
                schema_id = entry.schema_id
                schema = state.schemas[schema_id]
                key = Key.of(schema)
                assert key is not None
                active = Memtable(RecordType(schema), key, active.reached)
                memtables.insert(0, active)
            _apply(active, entry)
        active.reached = position
    return tuple(memtables)


def _apply(memtable: Memtable, entry: log_entry.LogEntry) -> None:
    key, schema = memtable.key, memtable.record.schema
    match entry.kind:
        case EntryKind.ROWS:
            rows = entry.rows(log_entry.python_types(schema.fields))
            memtable.put_rows(list(map(_keys_of(memtable), rows)), rows, len(entry.body))
        case EntryKind.ROW_BATCH:
            batch = entry.batch().cast(arrow_schema(schema))
            memtable.put_batch(key.values(batch), batch)
        case EntryKind.KEYS:
            keys = entry.rows(log_entry.python_types(key.fields))
            memtable.delete([k[0] for k in keys] if len(key.fields) == 1 else keys)
        case EntryKind.KEY_BATCH:
            memtable.delete(key.values(entry.batch()))


def _keys_of(memtable: Memtable) -> Callable[[tuple[Any, ...]], Any]:
    return itemgetter(*(memtable.record.names.index(name) for name in memtable.key.names))
