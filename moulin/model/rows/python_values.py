"""Arrow arrays from Python values: dicts for structs and maps, lists for lists, and what Python has for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from moulin.model.names import did_you_mean
from moulin.model.rows.conversion import Misfit, Target, build_list, build_struct, check_required, convert
from moulin.model.rows.leaf_conversion import WITH_ZONE
from moulin.model.rows.nano_datetime import NanoDatetime
from moulin.model.schema.times import datetime_to_nanos


def from_python(values: Sequence[Any], target: Target) -> pa.Array:
    """The values as an array that fits `target`; None is null. Numbers for a float column are rounded to floats."""
    return check_required(_build(values, target), target)


def _build(values: Sequence[Any], target: Target) -> pa.Array:
    if not target.inner:
        return convert(_leaf(values, target), target, rounding=True)
    present = [value for value in values if value is not None]
    mask = pa.array([value is None for value in values]) if len(present) < len(values) else None
    if pt.is_struct(target.type):
        return _build_struct(values, present, target, mask)
    for value in present:
        if not (_is_map(value) if pt.is_map(target.type) else _is_list(value)):
            raise Misfit(target, f"it does not fit type {target.kind}.")
    lengths = np.array([0 if value is None else len(value) for value in values], np.int64)
    if pt.is_map(target.type):
        pairs = list(chain.from_iterable(value.items() if isinstance(value, Mapping) else value for value in present))
        columns = [[key for key, _ in pairs], [value for _, value in pairs]]
    else:
        columns = [list(chain.from_iterable(present))]
    children = [from_python(column, child) for column, child in zip(columns, target.inner, strict=True)]
    return build_list(lengths, children, target, mask)


def _build_struct(values: Sequence[Any], present: Sequence[Any], target: Target, mask: pa.Array | None) -> pa.Array:
    known = {child.name for child in target.inner}
    for value in present:
        if not isinstance(value, Mapping):
            raise Misfit(target, f"it does not fit type {target.kind}.")
        if not value.keys() <= known:
            name = next(str(key) for key in value if key not in known)
            raise Misfit(target, f"it has a field {name!r} that the table lacks.{did_you_mean(name, known)}")
    missing = len(values) - len(present)
    children = []
    for child in target.inner:
        default = child.python_default
        column = [None if value is None else value.get(child.name, default) for value in values]
        children.append(check_required(_build(column, child), child, missing))
    return build_struct(children, target, mask)


def _is_map(value: object) -> bool:
    """Whether it is a dict, or what Arrow gives back for a map: a list of pairs."""
    pairs = isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
    return pairs or isinstance(value, Mapping)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes | bytearray)


def _leaf(values: Sequence[Any], target: Target) -> pa.Array:
    """The values in whatever Arrow type they suggest."""
    if isinstance(values, np.ndarray):
        return pa.array(values)
    kinds = set(map(type, values)) - {type(None)}
    if str in kinds and len(kinds) > 1:
        raise Misfit(target, "it mixes text with other values.")  # alone, each of them may fit
    if pt.is_timestamp(target.type) or pt.is_date(target.type):
        if NanoDatetime in kinds:
            return _nanos(values, target)
        if datetime in kinds:
            values = _moments(values, kinds, target)
    try:
        if Decimal in kinds and pt.is_floating(target.type):
            values = [float(value) if type(value) is Decimal else value for value in values]
        # A whole number of more than 64 bits suggests no type; for decimals Arrow itself takes nothing but what fits.
        explicit = target.type if pt.is_decimal(target.type) and str not in kinds else None
        if pt.is_timestamp(target.type) and any(hasattr(kind, "nanosecond") for kind in kinds):
            # Times of pandas, whose nanoseconds Arrow would not look for.
            zoned = _check_zones(values, target)
            explicit = pa.timestamp("ns", "UTC" if zoned else None)
        return pa.array(values, explicit)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise Misfit(target, f"it does not fit type {target.kind} ({error}).") from None


def _moments(values: Sequence[Any], kinds: set[type], target: Target) -> Sequence[Any]:
    """Dates among the times as midnights, and none without a zone among those with one: Arrow would lose either."""
    if date in kinds:
        values = [datetime.combine(value, time()) if type(value) is date else value for value in values]
    _check_zones(values, target)
    return values


def _nanos(values: Sequence[Any], target: Target) -> pa.Array:
    """Times, some of which have nanoseconds, as Arrow would not read them."""
    try:
        zoned = _check_zones(values, target)
        numbers = [None if value is None else datetime_to_nanos(value) for value in values]
        return pa.array(numbers, pa.int64()).cast(pa.timestamp("ns", "UTC" if zoned else None))
    except (TypeError, OverflowError) as error:
        raise Misfit(target, f"it does not fit type {target.kind} ({error}).") from None


def _check_zones(values: Sequence[Any], target: Target) -> bool:
    """Whether the times have a zone, which all of them have or none, and all for a column with a zone."""
    zoned = {value.tzinfo is not None for value in values if isinstance(value, datetime)}
    if False in zoned and getattr(target.type, "tz", None) is not None:
        raise Misfit(target, f"it has no time zone, which type {target.kind} needs: {WITH_ZONE}")
    if len(zoned) > 1:
        raise Misfit(target, "it mixes times with and without a zone.")
    return zoned == {True}


__all__ = ["from_python"]
