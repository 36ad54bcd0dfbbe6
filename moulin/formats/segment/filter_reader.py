"""Asks the bloom filters of a segment whether a row group may hold what a condition looks for."""

# Decisions: docs/decisions/0371

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress

from moulin.formats.segment.bloom_filter import HEADER_BYTES, may_hold, parse_header, stored_bytes
from moulin.formats.segment.opened import OpenedFile
from moulin.model.predicate.condition import And, Column, Comparand, Compare, Condition, In, Or
from moulin.model.schema.values import Schema

_MOST_VALUES = 64  # of one IN; more are mostly in one row group or another


class FilterReader:
    """A filter is used if its checksum is right. With `trust` that is checked once, and then only blocks are read."""

    def __init__(self, opened: OpenedFile, read: Callable[[int, int], bytes], *, trust: bool) -> None:
        self._opened, self._read, self._trust = opened, read, trust

    def may_match(self, condition: Condition, schema: Schema, group: int) -> bool:
        """Whether a row group may hold a match."""
        match condition:
            case And(children):
                return all(self.may_match(child, schema, group) for child in children)
            case Or(children):
                return any(self.may_match(child, schema, group) for child in children)
            case Compare(column, "=", comparand):
                return self._may_hold((comparand,), column, schema, group)
            case In(column, comparands, False) if len(comparands) <= _MOST_VALUES:
                return self._may_hold(comparands, column, schema, group)
        return True

    def _may_hold(self, comparands: Sequence[Comparand], column: Column, schema: Schema, group: int) -> bool:
        stored = self._opened.columns(schema).get(column.field_id)
        if stored is None or stored.bounds is None or column.is_floating:
            return True
        span = self._opened.map.chunk(group, stored.index).bloom
        if not span.size:
            return True
        with suppress(ValueError, IndexError):
            values = list(stored_bytes(comparands, self._opened.metadata.schema.column(stored.index), column.type))
            read = self._filter(group, stored.index)
            if read is None:
                return True
            start, size = parse_header(read(0, min(HEADER_BYTES, span.size)))
            if start + size == span.size:
                return may_hold(values, size, lambda at, length: read(start + at, length))
        return True

    def _filter(self, group: int, leaf: int) -> Callable[[int, int], bytes] | None:
        """How to read from a filter; None if its checksum is wrong."""
        span, key = self._opened.map.chunk(group, leaf).bloom, (group, leaf)
        if self._trust and key in self._opened.filters:
            return lambda at, length: self._read(span.start + at, length)
        data = self._read(*span)
        if zlib.crc32(data) != self._opened.checksums.bloom(group, leaf):
            return None
        self._opened.filters.add(key)
        return lambda at, length: data[at : at + length]


__all__ = ["FilterReader"]
