"""The context of records in OTLP requests: their resource and scope, and the request.

All three signals share one shape: a request holds resources, a resource holds scopes, a scope holds records (of
metrics: metrics, which hold points). These levels are few and wide, so they are walked; the records are then read
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moulin.ingest.otlp.attributes import attributes
from moulin.ingest.otlp.wire import BYTES, Buffer, Fields, Odd, scan, walk
from moulin.model.columns.arrays import Integers

ROUTE_ATTRIBUTE = "moulin.table"
SERVICE_ATTRIBUTE = "service.name"

_RESOURCE, _SCOPES, _SCHEMA_URL = 1, 2, 3
_SCOPE, _RECORDS = 1, 2
_ENTITY_REFS, _ENTITY_TEXTS = 3, (1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Origin:
    """The columns that records share with their scope: one value for each scope."""

    columns: dict[str, pa.Array]
    route: pa.StringArray
    request: Integers


@dataclass(frozen=True, slots=True)
class Envelope:
    """Where the records of all requests lie, and of each the index of its scope among all scopes."""

    buffer: Buffer
    start: Integers
    end: Integers
    scope: Integers
    origin: Origin


@dataclass(frozen=True, slots=True)
class Rows:
    """Records as columns, each with the index of its scope, the time its sender gave (0: none), and when it happened.

    The latter is what `event_time` is made of; it is the same time for most.
    """

    columns: dict[str, pa.Array]
    scope: Integers
    reported: Integers
    happened: Integers


class _Layout:
    """Where resources, scopes and records lie, as walking the requests finds them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.resources: list[tuple[int, int]] = []
        self.resource_urls: list[str | None] = []
        self.scopes: list[tuple[int, int]] = []
        self.scope_urls: list[str | None] = []
        self.scope_resource: list[int] = []
        self.scope_request: list[int] = []
        self.records: list[tuple[int, int]] = []
        self.record_counts: list[int] = []

    def walk_request(self, request: int, start: int, end: int) -> None:
        for number, wire, at, size in walk(self.data, start, end):
            if number == 1:
                _require(wire)
                self._walk_resource(request, at, at + size)

    def _walk_resource(self, request: int, start: int, end: int) -> None:
        resource = url = None
        for number, wire, at, size in walk(self.data, start, end):
            if number == _SCOPES:
                _require(wire)
                self._walk_scope(at, at + size)
                self.scope_resource.append(len(self.resources))
                self.scope_request.append(request)
            elif number == _RESOURCE:
                _require(wire, twice=resource is not None)
                resource = (at, at + size)
            elif number == _SCHEMA_URL:
                _require(wire)
                url = _text(self.data, at, size)
        self.resources.append(resource or (0, 0))
        self.resource_urls.append(url)

    def _walk_scope(self, start: int, end: int) -> None:
        scope = url = None
        records = self.records
        before = len(records)
        for number, wire, at, size in walk(self.data, start, end):
            if number == _RECORDS and wire == BYTES:
                records.append((at, at + size))
            elif number == _SCOPE:
                _require(wire, twice=scope is not None)
                scope = (at, at + size)
            elif number <= _SCHEMA_URL:
                _require(wire)
                url = _text(self.data, at, size)
        self.scopes.append(scope or (0, 0))
        self.scope_urls.append(url)
        self.record_counts.append(len(records) - before)


def open_requests(requests: Sequence[bytes]) -> Envelope:
    """The records of requests of one signal."""
    buffer = Buffer(b"".join(requests))
    found = _Layout(buffer.data)
    at = 0
    for index, request in enumerate(requests):
        found.walk_request(index, at, at + len(request))
        at += len(request)
    start, end = _ranges(found.records)
    scope = np.repeat(np.arange(len(found.scopes)), found.record_counts)
    return Envelope(buffer, start, end, scope, _origin(buffer, found))


def _origin(buffer: Buffer, found: _Layout) -> Origin:
    owner = np.array(found.scope_resource, np.int64)
    resources = scan(buffer, *_ranges(found.resources))
    _check_entities(buffer, resources)
    resource = attributes(resources, 1).take(owner)
    fields = scan(buffer, *_ranges(found.scopes))
    scope = attributes(fields, 3)
    columns = {
        "service_name": _pick(resource.text, SERVICE_ATTRIBUTE),
        "resource": resource.text,
        "resource_typed": resource.typed,
        "resource_schema_url": pa.array(found.resource_urls, pa.string()).take(pa.array(owner)),
        "scope_name": fields.text(1),
        "scope_version": fields.text(2),
        "scope_attributes": scope.text,
        "scope_attributes_typed": scope.typed,
        "scope_schema_url": pa.array(found.scope_urls, pa.string()),
    }
    return Origin(columns, _pick(resource.text, ROUTE_ATTRIBUTE), np.array(found.scope_request, np.int64))


def _check_entities(buffer: Buffer, resources: Fields) -> None:
    """References to entities are kept in no column; what protobuf refuses must be refused here, too."""
    if not resources.has(_ENTITY_REFS):
        return
    _, start, end = resources.many(_ENTITY_REFS)
    entities = scan(buffer, start, end)
    for number in _ENTITY_TEXTS:
        _, start, end = entities.many(number)
        buffer.text(start, end - start, np.ones(len(start), np.bool_))


def _pick(maps: pa.MapArray, key: str) -> pa.StringArray:
    """The value of one key of each map."""
    if not len(maps):
        return pa.array([], pa.string())
    return pc.map_lookup(maps, pa.scalar(key), "first")


def _require(wire: int, *, twice: bool = False) -> None:
    if wire != BYTES or twice:
        raise Odd("a field of an envelope comes twice, or has an unexpected wire type")


def _text(data: bytes, start: int, size: int) -> str | None:
    try:
        return data[start : start + size].decode() or None
    except UnicodeDecodeError:
        raise Odd("a schema URL is not UTF-8") from None


def _ranges(pairs: list[tuple[int, int]]) -> tuple[Integers, Integers]:
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])
