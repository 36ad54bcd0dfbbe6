"""Casts of a column to another type: converts every value, or reports the first that does not fit.

Whole numbers, dates, times and decimals convert without loss; floats are rounded to the nearest one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.rows.leaf_conversion import convert_leaf
from moulin.model.schema.arrow import ROW_ID, arrow_type
from moulin.model.schema.defaults import default_value
from moulin.model.schema.values import IcebergType, NestedField

_SHOWN = 100


def require_castable(old: IcebergType, new: IcebergType, name: str) -> None:
    """Refuse types of which no value can be cast."""
    cast_values(pa.nulls(0, arrow_type(old)), new, name)


def cast_default(field: NestedField, kind: IcebergType) -> Any:
    """The default of a column in another type; None when it has none."""
    value = default_value(field, write=True)
    if value is None:
        return None
    try:
        cast = cast_values(pa.array([value], arrow_type(field.field_type)), kind, field.name)[0]
    except _Misfit:
        raise InvalidInput(f"Column {field.name}: its default {value!r} does not fit type {kind}.") from None
    return cast.value if pt.is_timestamp(cast.type) and cast.type.unit == "ns" else cast.as_py()


def cast_column(rows: pa.Table, name: str, kind: IcebergType) -> pa.Table:
    """`rows`, which have row ids, with one column cast. InvalidInput names the first value that does not fit."""
    index = rows.schema.get_field_index(name)
    column = rows.column(index)
    try:
        cast = [cast_values(chunk, kind, name) for chunk in column.chunks]
    except _Misfit:
        row = _first_misfit(column.combine_chunks(), kind, name)
        value = _shown(column[row])
        raise InvalidInput(
            f"Column {name}: the value {value} of the row with _row_id {rows.column(ROW_ID)[row].as_py()} does not fit "
            f"type {kind}. Nothing was changed: change or delete these rows first."
        ) from None
    return rows.set_column(index, pa.field(name, arrow_type(kind)), pa.chunked_array(cast, arrow_type(kind)))


class _Misfit(Exception):
    """A value does not fit."""


def cast_values(array: pa.Array, kind: IcebergType, name: str) -> pa.Array:
    """The values of an array as a type; _Misfit when one does not fit, InvalidInput when the types say so."""
    target = arrow_type(kind)
    try:
        converted = convert_leaf(array, target, True)
        return _otherwise(array, target) if converted is None else converted
    except TypeError as error:
        raise InvalidInput(f"Column {name} cannot be cast to {kind}: {error}") from None
    except NotImplementedError:
        raise InvalidInput(f"Column {name} of Arrow type {array.type} cannot be cast to {kind}.") from None
    except ValueError as error:
        raise _Misfit from error


def _otherwise(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Casts that an append would not do by itself, since they change what a value is."""
    source = array.type
    if pt.is_string(target):
        return _to_text(array)
    for given, wanted in _CASTS:
        if given(source) and wanted(target):
            return _through_decimal(array, target) if pt.is_decimal(target) else array.cast(target)
    raise NotImplementedError


def _to_text(array: pa.Array) -> pa.Array:
    if isinstance(array.type, pa.UuidType):
        return _uuid_text(array.storage)
    if pt.is_binary(array.type) or pt.is_fixed_size_binary(array.type):
        return array.cast(pa.binary()).cast(pa.string())
    return array.cast(pa.string())


def _uuid_text(storage: pa.FixedSizeBinaryArray) -> pa.Array:
    """UUIDs as text of the usual form."""
    valid = pc.is_valid(storage).to_numpy(zero_copy_only=False)
    dense = pc.drop_null(storage)
    packed = (
        dense.buffers()[1].to_pybytes()[dense.offset * 16 : (dense.offset + len(dense)) * 16] if len(dense) else b""
    )
    digits = pa.Array.from_buffers(pa.binary(32), len(dense), [None, pa.py_buffer(packed.hex().encode())])
    text = digits.cast(pa.binary()).cast(pa.string())
    parts = [pc.utf8_slice_codeunits(text, start, stop) for start, stop in _UUID_PARTS]
    joined = pc.binary_join_element_wise(*parts, "-")
    return joined.take(pa.array(np.cumsum(valid) - 1, mask=~valid))


def _through_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Doubles as decimals, when they are exactly that: those that print as one."""
    return array.cast(pa.string()).cast(target) if pt.is_floating(array.type) else array.cast(target)


def _first_misfit(array: pa.Array, kind: IcebergType, name: str) -> int:
    start, length = 0, len(array)
    while length > 1:
        half = length // 2
        try:
            cast_values(array[start : start + half], kind, name)
        except _Misfit:
            length = half
        else:
            start, length = start + half, length - half
    return start


def _shown(value: pa.Scalar) -> str:
    try:
        text = repr(value.as_py())
    except (ValueError, OverflowError):
        text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


_UUID_PARTS = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
_CASTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]], ...] = (
    (pt.is_string, _is_number),
    (pt.is_string, pt.is_boolean),
    (pt.is_boolean, pt.is_integer),
    (_is_number, _is_number),
    (pt.is_string, pt.is_binary),
)

__all__ = ["cast_column", "cast_default", "cast_values", "require_castable"]
