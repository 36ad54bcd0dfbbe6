"""Checks appended rows before they are stored: limits, and that they fit the table.

JSON is measured in slices of lines, each so short that even a new column in every row costs little; the totals of
columns and cells are checked after each. A line longer than a slice is parsed in Python. Only then everything is parsed
at once, as intake will do.
"""

# Decisions: docs/decisions/0224

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json

from moulin.errors import InvalidInput, MoulinError
from moulin.formats.baby_segment import Payload
from moulin.ingest.appended import read_rows
from moulin.ingest.collector.arrow_stream import check_stream
from moulin.ingest.collector.limits import RequestLimits
from moulin.ingest.otlp.json_request import STRING, count_values
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers
from moulin.model.rows.rows import to_batches
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import Schema

_SLICE: Final = 16 << 10
_NO_BRACKETS: Final = re.compile(STRING + rb'|[^"{}\[\]]++', re.DOTALL)
_DECODER: Final = json.JSONDecoder()
_BLANK: Final = re.compile(r"\s*")
_TEXTS: Final = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
_OPENING, _CLOSING = frozenset(b"{["), frozenset(b"}]")

Path = tuple[str, ...]


def check_rows(payload: Payload, data: bytes, schema: Schema, limits: RequestLimits) -> int:
    """How many rows there are. TooLarge past a limit; InvalidInput, with the column, for what the table cannot take."""
    try:
        if payload is Payload.ARROW:
            check_stream(data, limits)
        else:
            _check_lines(data, limits)
    except MoulinError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        what = "an Arrow IPC stream" if payload is Payload.ARROW else "one JSON object per line"
        raise InvalidInput(f"The body is not {what}: {str(error).splitlines()[0][:200]}") from None
    wanted = arrow_schema(schema)
    rows = read_rows(payload, data, wanted)
    limits.check_rows(rows.num_rows)
    limits.check_cells(rows.num_rows, max(len(wanted), len(rows.schema)))
    if payload is Payload.ARROW:
        _check_arrays(rows, limits)
    for _ in to_batches(rows, schema):
        pass
    return int(rows.num_rows)


def _check_arrays(rows: pa.Table, limits: RequestLimits) -> None:
    """All of it is valid, and no larger once dictionaries, runs and views are written out."""
    try:
        rows.validate()
        limits.check_decoded(sum(_plain_bytes(chunk) for column in rows.columns for chunk in column.chunks))
        rows.validate(full=True)  # only now: it reads every view of a text
    except MoulinError:
        raise
    except (pa.ArrowException, ValueError, IndexError) as error:
        raise InvalidInput(f"The body is not an Arrow IPC stream: {str(error).splitlines()[0][:200]}") from None


def _plain_bytes(array: pa.Array) -> int:
    """The bytes of an array whose values are written out one by one."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _plain_bytes(array.storage)
    if pa.types.is_dictionary(kind):
        sizes = _sizes(array.dictionary)
        return int(sizes[array.indices.drop_null().to_numpy()].sum()) if len(sizes) else 0
    if pa.types.is_run_end_encoded(kind):
        return int((_sizes(array.values) * np.diff(array.run_ends.to_numpy(), prepend=0)).sum())
    if pa.types.is_struct(kind):
        return sum(_plain_bytes(child) for child in array.flatten())
    if pa.types.is_map(kind):
        return _plain_bytes(array.keys) + _plain_bytes(array.items)
    if hasattr(array, "values"):
        _check_views(array)
        return _plain_bytes(array.values)
    return int(np.maximum(_sizes(array), 0).sum())


def _check_views(array: pa.Array) -> None:
    """Views of lists may name the same values again and again, and would be as many lists once written out."""
    views = pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type)
    if views and (pc.sum(pc.list_value_length(array)).as_py() or 0) > len(array.values):
        raise InvalidInput("Views of lists overlap: send plain lists.")


def _sizes(array: pa.Array) -> Integers:
    """The bytes of each value. A nested one counts as the whole array: such values are not repeated in earnest."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if kind in (pa.string_view(), pa.binary_view()):  # 16 bytes each, which begin with the length
        views = np.frombuffer(array.buffers()[1], np.int32).reshape(-1, 4)
        return views[array.offset : array.offset + len(array), 0].astype(np.int64)
    if any(is_kind(kind) for is_kind in _TEXTS):
        return np.asarray(pc.binary_length(array).fill_null(0).cast(pa.int64()))
    return np.full(len(array), array.nbytes if kind.num_fields else _width(kind), np.int64)


def _width(kind: pa.DataType) -> int:
    try:
        return max(int(kind.bit_width) // 8, 1)
    except ValueError:  # null has none
        return 1


def _check_lines(data: bytes, limits: RequestLimits) -> None:
    rows, paths = 0, set[Path]()
    for part in _slices(data):
        if len(part) > _SLICE:
            limits.check_values(count_values(part, limits.values))
        _check_depth(part, limits)
        if len(part) > _SLICE:
            more, objects, found = _walked(part.decode())
            limits.check_cells(objects, len(found))
        else:
            read = pa_json.read_json(io.BytesIO(part), pa_json.ReadOptions(use_threads=False))
            more, found = read.num_rows, set(_paths((), read.schema))
        rows += more
        paths |= found
        limits.check_rows(rows)
        limits.check_columns(len(paths))
        limits.check_cells(rows, len(paths))


def _slices(data: bytes) -> Iterator[bytes]:
    """Whole lines, together at most `_SLICE` bytes, or one that is longer. Empty ones are left out."""
    at, end = 0, len(data)
    while at < end:
        stop = end if end - at <= _SLICE else data.rfind(b"\n", at, at + _SLICE) + 1 or data.find(b"\n", at) + 1 or end
        part = data[at:stop].strip()
        at = stop
        if part:
            yield part


def _check_depth(part: bytes, limits: RequestLimits) -> None:
    """Exact only where it matters: a line is no deeper than it has brackets to open, and each object needs one."""
    objects = part.count(b"\n{") + part.startswith(b"{")
    if part.count(b"{") + part.count(b"[") - objects < limits.depth:
        return
    for line in part.split(b"\n"):
        if line.count(b"{") + line.count(b"[") > limits.depth:
            depth = 0
            for byte in _NO_BRACKETS.sub(b"", line):
                if byte in _OPENING:
                    depth += 1
                    limits.check_depth(depth)
                elif byte in _CLOSING:
                    depth -= 1


def _walked(line: str) -> tuple[int, int, set[Path]]:
    """The rows of one long line, its objects (each of a list may add a column to all), and the paths of its keys."""
    rows, objects, paths = 0, 0, set[Path]()
    at = 0
    while at < len(line):
        document, at = _DECODER.raw_decode(line, at)
        at = _BLANK.match(line, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        rows += 1
        waiting: list[tuple[Path, Any]] = [((), document)]
        while waiting:
            path, value = waiting.pop()
            if isinstance(value, dict):
                objects += 1
                inner = [((*path, name), item) for name, item in value.items()]
                paths.update(name for name, _ in inner)
                waiting += [(name, item) for name, item in inner if isinstance(item, dict | list)]
            elif isinstance(value, list):
                waiting += [(path, item) for item in value if isinstance(item, dict | list)]
    return rows, objects, paths


def _paths(path: Path, fields: Any) -> Iterator[Path]:
    for field in fields:
        name, kind = (*path, field.name), field.type
        yield name
        while pa.types.is_list(kind):
            kind = kind.value_type
        if pa.types.is_struct(kind):
            yield from _paths(name, kind)


__all__ = ["check_rows"]
