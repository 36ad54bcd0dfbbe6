"""Values of rows as texts of files: JSON on one line, and cells of CSV."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any


def json_text(value: Any, indent: int | None = None) -> str:
    """A value as JSON, on one line unless indented, as the standard has it: numbers that it does not know are text."""
    try:
        return json.dumps(value, default=_as_json, indent=indent, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        return json.dumps(_plain(value), default=_as_json, indent=indent, ensure_ascii=False)


def _as_json(value: Any) -> str:
    """Times are ISO 8601, bytes hexadecimal, decimals and everything else text."""
    match value:
        case bytes():
            return value.hex()
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
    return str(value)


def _plain(value: Any) -> Any:
    """The value with text for numbers that JSON lacks and for keys of maps."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else _as_json(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def csv_cell(value: Any) -> str:
    """A value in a cell: nothing for null, JSON for what holds others."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case dict() | list() | tuple():
            return json_text(value)
    return str(value)


def whole_numbers(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Whole numbers that are wider than 64 bits, which Arrow has as decimals, as numbers."""
    for row in rows:
        yield {name: int(one) if _is_whole(one) else one for name, one in row.items()}


def _is_whole(value: object) -> bool:
    return isinstance(value, Decimal) and value.as_tuple().exponent == 0


__all__ = ["csv_cell", "json_text", "whole_numbers"]
