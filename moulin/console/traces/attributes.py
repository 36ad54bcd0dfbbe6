"""The original attributes, from the columns that store them: strings of all, JSON of those that are not strings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moulin.model.columns import compute as pc
from moulin.model.schema.times import datetime_to_nanos


class Attribute(NamedTuple):
    """`kind` is string, bool, int64, float64, binary, or json for lists and maps; `value` is its text."""

    key: str
    kind: str
    value: str


_SPECIAL = {"$bytes": "binary", "$double": "float64"}


def attributes_of(texts: Iterable[tuple[str, str | None]] | None, typed: str | None) -> list[Attribute]:
    """The attributes of one span, event, link, resource or scope, in the order in which they were sent."""
    kinds = {} if typed is None else {key: _kind(value) for key, value in _object(typed).items()}
    return [Attribute(key, kinds.get(key, "string"), value or "") for key, value in texts or ()]


def _object(typed: str) -> dict[str, Any]:
    try:
        found = json.loads(typed)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, dict) and len(value) == 1:
        return _SPECIAL.get(next(iter(value)), "json")
    return "json" if isinstance(value, dict | list) else "string"


def event_time(event: dict[str, Any]) -> int | None:
    """When an event of a span was, in Unix nanoseconds."""
    exact, when = event.get("time_unix_nano"), event["time"]
    return exact if exact is not None or when is None else datetime_to_nanos(when)


def in_hex(value: Any) -> str | None:
    """An id of a link, which former tables keep as bytes."""
    return (value.hex() if isinstance(value, bytes) else value) or None


def have_pair(column: pa.ChunkedArray, key: str, value: str) -> NDArray[np.bool_]:
    """In which rows a map has an entry of this key and value."""
    found = [_have_pair(chunk, key, value) for chunk in column.chunks]
    return np.concatenate(found) if found else np.zeros(0, np.bool_)


def _have_pair(maps: pa.MapArray, key: str, value: str) -> NDArray[np.bool_]:
    offsets = maps.offsets.to_numpy()
    first, stop = int(offsets[0]), int(offsets[-1])
    keys, items = maps.keys.slice(first, stop - first), maps.items.slice(first, stop - first)
    fits = pc.fill_null(pc.and_(pc.equal(keys, key), pc.equal(items, value)), False)
    before = np.append(0, np.cumsum(fits.to_numpy(zero_copy_only=False)))[offsets - first]
    found: NDArray[np.bool_] = (before[1:] > before[:-1]) & maps.is_valid().to_numpy(zero_copy_only=False)
    return found


__all__ = ["Attribute", "attributes_of", "event_time", "have_pair", "in_hex"]
