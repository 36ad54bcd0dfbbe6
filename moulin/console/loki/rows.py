"""The selected records of a query, and their labels.

A stream has two labels: `service_name` and `level` (also as `detected_level`). All other fields of a record are
metadata, with names that Loki allows: its attributes, those of its resource, trace and span id, scope and event.
"""

# Decisions: docs/decisions/0661

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.console.logs.levels import ALL, has_level, level_numbers, parse_level
from moulin.console.logs.levels import COLUMNS as LEVEL_COLUMNS
from moulin.console.loki.logql import LabelFilter, LineFilter, LogQuery, Matcher
from moulin.console.telemetry import GoOn, Moment, column, nanos
from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import Compare, Condition

LABELS: Final = ("level", "service_name")
UNKNOWN_SERVICE: Final = "unknown_service"
_PLAIN: Final = ("trace_id", "span_id", "event_name", "scope_name")
_MAPS: Final = ("attributes", "resource")
COLUMNS: Final = (*LEVEL_COLUMNS, "service_name", "body", *_PLAIN, *_MAPS)
_ODD: Final = re.compile(r"[^A-Za-z0-9_]")
_LONGEST_PATTERN: Final = 1000
Mask = npt.NDArray[np.bool_]


def sanitized(key: str) -> str:
    """The name of an attribute as a label of Loki."""
    found = _ODD.sub("_", key)
    return "_" + found if found[:1].isdigit() or not found else found


def select(moment: Moment, query: LogQuery, start: int | None, end: int | None) -> Predicate:
    """What the store can tell of a query; `matching` has the rest."""
    also: list[Condition] = []
    for one in query.matchers:
        if one.operator == "=" and one.label == "service_name" and one.value not in ("", UNKNOWN_SERVICE):
            also.append(Compare(column(moment.schema, "service_name"), "=", str(one.value)))
        elif one.operator == "=" and one.label in ("level", "detected_level") and parse_level(str(one.value)):
            also.append(has_level(moment.schema, (str(parse_level(str(one.value))),)))
    return moment.where(start, end, None, also)


def batches(moment: Moment, query: LogQuery, start: int, end: int, *, go_on: GoOn) -> Iterator[pa.Table]:
    """The records of [start, end) that a query selects, some at a time, in no order."""
    asked = select(moment, query, start, end)
    names = list(dict.fromkeys([*COLUMNS, *moment.time_columns]))
    for rows in moment.batches(asked, names, go_on=go_on):
        if (found := matching(rows, query)).num_rows:
            yield found


def newest(
    moment: Moment, query: LogQuery, start: int, end: int, *, limit: int, forward: bool, go_on: GoOn
) -> pa.Table:
    """The newest records that a query selects, or the oldest, in order."""
    held = moment.empty(list(dict.fromkeys([*COLUMNS, *moment.time_columns])))
    if not query.stages and all(one.operator == "=" for one in query.matchers):
        found = moment.first(select(moment, query, start, end), COLUMNS, limit=limit, go_on=go_on, newest=not forward)
        return matching(found.select(held.column_names), query)
    for rows in batches(moment, query, start, end, go_on=go_on):
        held = moment.in_order(pa.concat_tables([held, rows]), newest=not forward).slice(0, limit)
    return held


def matching(rows: pa.Table, query: LogQuery) -> pa.Table:
    """The rows that all matchers and stages of a query hold for."""
    for one in query.matchers:
        rows = rows.filter(pa.array(_holds(label(rows, one.label), one)))
    for stage in query.stages:
        if not rows.num_rows:
            break
        rows = rows.filter(pa.array(_line(rows, stage) if isinstance(stage, LineFilter) else _labels(rows, stage)))
    return rows


def label(rows: pa.Table, name: str) -> pa.Array:
    """A label of each row, or what it carries under that name; "" where it has none."""
    if name in ("level", "detected_level"):
        return pa.array(ALL).take(pa.array(level_numbers(rows)))
    if name == "service_name":
        return pc.fill_null(_flat(rows.column(name)), UNKNOWN_SERVICE)
    found = [_text(rows.column(name))] if name in _PLAIN else []
    for maps in _MAPS:
        found += [_flat(pc.map_lookup(rows.column(maps), key, "first")) for key in _keys(rows, maps, name)]
    return pc.fill_null(pc.coalesce(*found), "") if found else pa.array([""] * rows.num_rows, pa.string())


def _keys(rows: pa.Table, maps: str, name: str) -> list[str]:
    """The keys that are called so as a label."""
    return [key for key in unique_keys(rows, maps) if sanitized(key) == name]


def unique_keys(rows: pa.Table, maps: str) -> list[str]:
    chunks = [chunk for chunk in rows.column(maps).chunks if len(chunk)]
    keys = [one.keys.slice(one.offsets[0].as_py(), one.offsets[-1].as_py() - one.offsets[0].as_py()) for one in chunks]
    return sorted(pc.unique(pa.concat_arrays([pa.array([], pa.string()), *keys])).to_pylist())


def _flat(values: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([pa.array([], values.type), *values.chunks])


def _text(values: pa.ChunkedArray) -> pa.Array:
    flat = _flat(values)
    if pa.types.is_string(flat.type):
        return flat
    return pa.array([None if one is None else one.hex() for one in flat.to_pylist()], pa.string())


def lines(rows: pa.Table) -> pa.Array:
    return pc.fill_null(_flat(rows.column("body")), "")


def _line(rows: pa.Table, stage: LineFilter) -> Mask:
    found = np.zeros(rows.num_rows, np.bool_)
    for text in stage.texts:
        body = lines(rows)
        found |= _bools(pc.match_substring(body, text) if stage.operator in ("|=", "!=") else _searched(body, text))
    return ~found if stage.operator in ("!=", "!~") else found


def _labels(rows: pa.Table, stage: LabelFilter) -> Mask:
    found = np.zeros(rows.num_rows, np.bool_)
    for group in stage.groups:
        mine = np.ones(rows.num_rows, np.bool_)
        for one in group:
            mine &= _holds(label(rows, one.label), one)
        found |= mine
    return found


def _holds(values: pa.Array, one: Matcher) -> Mask:
    if isinstance(one.value, float):
        return _numbers(values, one)
    if one.operator in ("=", "!="):
        found = _bools(pc.equal(values, one.value))
    else:
        found = _bools(_searched(values, f"\\A(?:{one.value})\\z"))
    return ~found if one.operator in ("!=", "!~") else found


def _numbers(values: pa.Array, one: Matcher) -> Mask:
    """What is no number holds for nothing."""
    looks = pc.match_substring_regex(values, r"\A[+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?\z")
    known = _bools(looks)
    numbers = np.asarray(pc.if_else(looks, values, "0").cast(pa.float64()))
    value = float(one.value)
    compared = {
        "==": numbers == value, "!=": numbers != value, ">": numbers > value,
        ">=": numbers >= value, "<": numbers < value, "<=": numbers <= value,
    }[one.operator]  # fmt: skip
    return np.asarray(known & compared, np.bool_)


def _searched(values: pa.Array, pattern: str) -> pa.Array:
    """Arrow searches with RE2, which takes linear time whatever the pattern."""
    if len(pattern) > _LONGEST_PATTERN:
        raise InvalidInput(f"A pattern has at most {_LONGEST_PATTERN} characters.")
    try:
        return pc.match_substring_regex(values, pattern)
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"A pattern cannot be read: {str(error)[:200]}.") from None


def _bools(values: pa.Array) -> Mask:
    return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)


def metadata(row: dict[str, Any]) -> dict[str, str]:
    """What a record carries beside its labels; what it carries itself comes before what its resource does."""
    found: dict[str, str] = {}
    for name in _PLAIN:
        if (value := row[name]) is not None:
            found[name] = value.hex() if isinstance(value, bytes) else value
    for maps in _MAPS:
        for key, value in row[maps] or ():
            name = sanitized(key)
            if name not in LABELS and value is not None:
                found.setdefault(name, value)
    return found


def codes(rows: pa.Table, names: Sequence[str]) -> tuple[list[tuple[str, ...]], npt.NDArray[np.int64]]:
    """The different values of some labels, and for each row which of them it has."""
    coded = [label(rows, name).dictionary_encode() for name in names]
    both = np.zeros(rows.num_rows, np.int64)
    for one in coded:
        both = both * max(1, len(one.dictionary)) + np.asarray(one.indices)
    _, first, inverse = np.unique(both, return_index=True, return_inverse=True)
    texts = [one.dictionary.take(one.indices.take(pa.array(first))).to_pylist() for one in coded]
    return (list(zip(*texts, strict=True)) if texts else [()] * len(first)), inverse.reshape(-1)


def times_of(rows: pa.Table) -> npt.NDArray[np.int64]:
    return nanos(rows)


__all__ = [
    "COLUMNS", "LABELS", "UNKNOWN_SERVICE", "batches", "codes", "label", "lines", "metadata", "newest", "sanitized",
    "times_of", "unique_keys",
]  # fmt: skip
