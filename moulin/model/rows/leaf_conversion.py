"""Which Arrow types convert to which column types, and how, without loss."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from moulin.model.columns import compute as pc

WITH_ZONE = "give it one (datetime.now(UTC), cast(timestamp('us', 'UTC'))), or make the column a timestamp."


def convert_leaf(array: pa.Array, target: pa.DataType, rounding: bool) -> pa.Array | None:
    """`array`, of a type without fields inside, as `target`, a canonical type; None when the types do not go together.

    Raises ValueError (ArrowInvalid is one) when a value would be changed, TypeError when the type says so. Text is
    read as dates, times, decimals and UUIDs. Where the column has a zone, times need one; text without one, and dates,
    count as UTC.
    """
    for matches, convert in _BY_TARGET:
        if matches(target):
            return convert(array, target, rounding)
    return None


def _boolean(array: pa.Array, target: pa.DataType, _: bool) -> pa.Array | None:
    return array if pt.is_boolean(array.type) else None


def _integer(array: pa.Array, target: pa.DataType, _: bool) -> pa.Array | None:
    return array.cast(target) if pt.is_integer(array.type) or pt.is_floating(array.type) else None


def _floating(array: pa.Array, target: pa.DataType, rounding: bool) -> pa.Array | None:
    if pt.is_integer(array.type):
        return array.cast(target)
    if not pt.is_floating(array.type):
        return None
    result = array.cast(target)
    if pt.is_float64(array.type) and pt.is_float32(target):
        wider = result.cast(array.type)
        changed = pc.is_inf(wider) if rounding else pc.invert(pc.is_nan(array))
        _refuse(pc.and_(changed, pc.not_equal(wider, array)), "a float cannot represent it exactly")
    return result


def _decimal(array: pa.Array, target: pa.DataType, _: bool) -> pa.Array | None:
    if pt.is_integer(array.type):
        return array.cast(pa.decimal128(20, 0)).cast(target)
    return array.cast(target) if pt.is_decimal(array.type) or _is_text(array.type) else None


def _date(array: pa.Array, target: pa.DataType, _: bool) -> pa.Array | None:
    if pt.is_timestamp(array.type) and array.type.tz is None:
        result = array.cast(target)
        _refuse(pc.not_equal(result.cast(array.type), array), "it has a time of day")
        return result
    return array.cast(target) if pt.is_date(array.type) or _is_text(array.type) else None


def _time(array: pa.Array, target: pa.DataType, _: bool) -> pa.Array | None:
    if _is_text(array.type):
        moments = pc.binary_join_element_wise("1970-01-01T", array.cast(pa.string()), "")
        return moments.cast(pa.timestamp("us")).cast(target)
    return array.cast(target) if pt.is_time(array.type) else None


def _timestamp(array: pa.Array, target: pa.DataType, _: bool) -> pa.Array | None:
    source = array.type
    if pt.is_timestamp(source):
        if source.tz is not None and target.tz is None:
            raise TypeError("its values have a time zone, which type timestamp does not store: use timestamptz.")
        if source.tz is None and target.tz is not None:
            raise TypeError(f"its values have no time zone, which type timestamptz needs: {WITH_ZONE}")
        return array.cast(target)
    if pt.is_date(source):
        return array.cast(pa.timestamp(target.unit)).cast(target)
    if not _is_text(source):
        return None
    plain = pa.timestamp(target.unit)
    if target.tz is None:
        return array.cast(plain)
    text = array.cast(pa.string())
    zoned = pc.match_substring_regex(text, _ZONE)
    return pc.coalesce(
        pc.if_else(zoned, text, None).cast(target), pc.if_else(zoned, None, text).cast(plain).cast(target)
    )


def _text(array: pa.Array, target: pa.DataType, _: bool) -> pa.Array | None:
    return array.cast(target) if _is_text(array.type) else None


def _fixed(array: pa.Array, target: pa.DataType, _: bool) -> pa.Array | None:
    if pt.is_fixed_size_binary(array.type):
        return array if array.type == target else None
    return array.cast(pa.binary()).cast(target) if _is_bytes(array.type) else None


def _binary(array: pa.Array, target: pa.DataType, _: bool) -> pa.Array | None:
    return array.cast(target) if _is_bytes(array.type) or pt.is_fixed_size_binary(array.type) else None


def _uuid(array: pa.Array, target: pa.DataType, _: bool) -> pa.Array | None:
    if isinstance(array.type, pa.UuidType):
        return array
    if _is_text(array.type):
        storage = _parse_uuids(array)
    elif _is_bytes(array.type):
        storage = array.cast(pa.binary()).cast(pa.binary(16))
    elif array.type == pa.binary(16):
        storage = array
    else:
        return None
    return pa.ExtensionArray.from_storage(target, storage)


def _parse_uuids(array: pa.Array) -> pa.Array:
    text = array.cast(pa.string())
    _refuse(pc.invert(pc.match_substring_regex(text, _UUID)), "it is not a UUID")
    digits = pc.replace_substring(pc.drop_null(text), "-", "")
    packed = pa.py_buffer(bytes.fromhex("".join(digits.to_pylist())))
    dense = pa.Array.from_buffers(pa.binary(16), len(digits), [None, packed])
    if text.null_count == 0:
        return dense
    valid = pc.is_valid(text).to_numpy(zero_copy_only=False)
    return dense.take(pa.array(np.cumsum(valid) - 1, mask=~valid))


def _refuse(wrong: pa.Array, reason: str) -> None:
    if pc.any(wrong).as_py():
        raise ValueError(reason)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind))


_ZONE = r"\d[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
_UUID = r"^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$"

_BY_TARGET: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, pa.DataType, bool], pa.Array | None]], ...
] = (
    (pt.is_boolean, _boolean),
    (pt.is_integer, _integer),
    (pt.is_floating, _floating),
    (pt.is_decimal, _decimal),
    (pt.is_date, _date),
    (pt.is_time, _time),
    (pt.is_timestamp, _timestamp),
    (pt.is_string, _text),
    (pt.is_fixed_size_binary, _fixed),
    (pt.is_binary, _binary),
    (lambda kind: isinstance(kind, pa.UuidType), _uuid),
)


__all__ = ["convert_leaf"]
