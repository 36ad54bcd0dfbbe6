"""OTLP attributes and values as Arrow columns: `map<string, string>`, and JSON text that keeps the other types.

The map has every attribute as a string. The JSON object has exactly those whose value is not a string, so together they
are lossless without duplication; it is null if all are strings. If a key is duplicated, which OTLP forbids, the last
value is used. Numbers and booleans are JSON's own, and a double always has a point or an exponent. What JSON lacks is
an object with one key: `{"$bytes": "base64"}`, `{"$double": "NaN"}` (also Infinity and -Infinity), and `{"$kvlist":
{...}}` around a list of keys and values that would read like one of these.
"""

# Decisions: docs/decisions/0070, docs/decisions/0225

from __future__ import annotations

import base64
import json
import math
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from moulin.ingest.otlp.wire import BYTES, FIXED64, VARINT, Buffer, Fields, Odd, offsets, scan
from moulin.model.columns.arrays import Integers

_STRING, _BOOL, _INT, _DOUBLE, _ARRAY, _KVLIST, _RAW = 1, 2, 3, 4, 5, 6, 7
_ESCAPED = r'["\\\x00-\x1f]'


class Attributes(NamedTuple):
    """One map and one JSON text for each message."""

    text: pa.MapArray
    typed: pa.StringArray

    def take(self, indexes: Integers) -> Attributes:
        """The attributes of other messages that share these."""
        return Attributes(self.text.take(pa.array(indexes)), self.typed.take(pa.array(indexes)))


class Values(NamedTuple):
    """For each value its text, and its JSON unless it is a text (then null)."""

    text: pa.StringArray
    typed: pa.StringArray


def attributes(fields: Fields, number: int) -> Attributes:
    """The attributes in field `number` of each message."""
    owner, start, end = fields.many(number)
    pairs = scan(fields.buffer, start, end)
    key_start, key_size, has_key = pairs.find(1, BYTES)
    # A key that is absent is the empty one; at the offset where it would be, so that ranges still ascend.
    keys = fields.buffer.text(np.where(has_key, key_start, start), key_size, np.ones(len(start), np.bool_))
    found = values(fields.buffer, *pairs.one(2))
    kept = _last_of_each(owner, keys)
    if kept is not None:
        fields.buffer.repeated_keys += len(owner) - len(kept)
        owner, keys = owner[kept], keys.take(pa.array(kept))
        found = Values(found.text.take(pa.array(kept)), found.typed.take(pa.array(kept)))
    edges = offsets(owner, fields.messages)
    text = pa.MapArray.from_arrays(pa.array(edges), keys, found.text)
    return Attributes(text, _objects(owner, keys, found.typed, fields.messages))


def _last_of_each(owner: Integers, keys: pa.StringArray) -> Integers | None:
    """The indexes of the last attribute of each key in each message; None when no key comes twice."""
    encoded = keys.dictionary_encode()
    both = owner * len(encoded.dictionary) + np.asarray(encoded.indices)
    if (both[1:] > both[:-1]).all():  # as where all messages have their keys in one order
        return None
    if pc.count_distinct(pa.array(both)).as_py() == len(both):
        return None
    _, from_the_end = np.unique(both[::-1], return_index=True)
    return np.sort(len(both) - 1 - from_the_end)


def values(buffer: Buffer, start: Integers, end: Integers) -> Values:
    """The AnyValue in each range; an empty one is null in the text, and `null` in JSON."""
    found = scan(buffer, start, end)
    if (found.counts > 1).any():
        raise Odd("a value is given twice")
    string_start, string_size, is_string = found.find(_STRING, BYTES)
    text = buffer.text(string_start, string_size, is_string)
    rest = np.flatnonzero(~is_string)
    if not len(rest):
        return Values(text, pa.nulls(len(start), pa.string()))
    texts = [text]
    jsons = [pa.nulls(1, pa.string())]
    text_index = np.arange(len(start))
    json_index = np.zeros(len(start), np.int64)
    at, json_at = len(text), 1
    for indexes, one_text, one_json in _others(buffer, found, start, end, rest):
        texts.append(one_text)
        jsons.append(one_json)
        text_index[indexes] = at + np.arange(len(indexes))
        json_index[indexes] = json_at + np.arange(len(indexes))
        at += len(indexes)
        json_at += len(indexes)
    return Values(
        pa.concat_arrays(texts).take(pa.array(text_index)), pa.concat_arrays(jsons).take(pa.array(json_index))
    )


def _others(
    buffer: Buffer, found: Fields, start: Integers, end: Integers, rest: Integers
) -> list[tuple[Integers, pa.StringArray, pa.StringArray]]:
    """(indexes, texts, JSON) of the values that are no texts, a kind at a time."""
    parts: list[tuple[Integers, pa.StringArray, pa.StringArray]] = []
    empty = np.ones(len(start), np.bool_)
    _, _, is_int = found.find(_INT, VARINT)
    if is_int.any():
        indexes = np.flatnonzero(is_int)
        numbers = pa.array(found.varints(_INT)[indexes]).cast(pa.string())
        parts.append((indexes, numbers, numbers))
        empty &= ~is_int
    _, _, is_bool = found.find(_BOOL, VARINT)
    if is_bool.any():
        indexes = np.flatnonzero(is_bool)
        truths = pa.array(found.varints(_BOOL)[indexes] != 0).cast(pa.string())
        parts.append((indexes, truths, truths))
        empty &= ~is_bool
    _, _, is_double = found.find(_DOUBLE, FIXED64)
    if is_double.any():
        indexes = np.flatnonzero(is_double)
        doubles = found.fixed64(_DOUBLE)[0][indexes].view(np.float64).tolist()
        parts.append((indexes, pa.array(map(repr, doubles), pa.string()), pa.array(map(_double, doubles), pa.string())))
        empty &= ~is_double
    for number in (_ARRAY, _KVLIST, _RAW):
        if found.has(number):
            _, _, present = found.find(number, BYTES)
            indexes = np.flatnonzero(present)
            nested = [_nested(buffer.data[start[index] : end[index]]) for index in indexes.tolist()]
            texts = pa.array([text for text, _ in nested], pa.string())
            parts.append((indexes, texts, pa.array([typed for _, typed in nested], pa.string())))
            empty &= ~present
    indexes = rest[empty[rest]]
    if len(indexes):
        nulls = pa.nulls(len(indexes), pa.string())
        parts.append((indexes, nulls, pa.array(["null"] * len(indexes), pa.string())))
    return parts


def _objects(owner: Integers, keys: pa.StringArray, typed: pa.StringArray, messages: int) -> pa.StringArray:
    """For each message a JSON object of its attributes that are no texts, or null."""
    indexes = np.flatnonzero(np.asarray(typed.is_valid()))
    if not len(indexes):
        return pa.nulls(messages, pa.string())
    names, some = keys.take(pa.array(indexes)), typed.take(pa.array(indexes))
    if pc.any(pc.match_substring_regex(names, _ESCAPED)).as_py():
        names = pa.array([json.dumps(name, ensure_ascii=False)[1:-1] for name in names.to_pylist()], pa.string())
    members = pc.binary_join_element_wise('"', names, '":', some, "")
    edges = offsets(owner[indexes], messages)
    lists = pa.ListArray.from_arrays(pa.array(edges), members)
    joined = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")
    absent = pa.array(edges[1:] == edges[:-1])
    return pc.if_else(absent, pa.scalar(None, pa.string()), joined)


def _double(value: float) -> str:
    return repr(value) if math.isfinite(value) else _dumps({"$double": _special(value)})


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _nested(data: bytes) -> tuple[str, str]:
    """Text and JSON of a list, of keys and values, or of bytes."""
    try:
        value = AnyValue.FromString(data)
    except DecodeError:
        raise Odd("a value is not an AnyValue") from None
    if value.WhichOneof("value") == "bytes_value":
        return _base64(value.bytes_value), _dumps(plain(value))
    text = _dumps(plain(value))
    return text, text


def plain(value: AnyValue) -> Any:
    """A value as what `json` writes for it."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        members = {pair.key: plain(pair.value) for pair in value.kvlist_value.values}
        return {"$kvlist": members} if len(members) == 1 and next(iter(members)).startswith("$") else members
    if kind == "bytes_value":
        return {"$bytes": _base64(value.bytes_value)}
    if kind == "double_value" and not math.isfinite(value.double_value):
        return {"$double": _special(value.double_value)}
    return None if kind is None else getattr(value, kind)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


__all__ = ["Attributes", "Values", "attributes", "plain", "values"]
