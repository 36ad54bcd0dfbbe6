"""Converts Arrow arrays to the types of a schema, or reports why they do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from moulin.model.columns import compute as pc
from moulin.model.names import did_you_mean
from moulin.model.rows.leaf_conversion import convert_leaf
from moulin.model.rows.nano_datetime import to_python
from moulin.model.schema.arrow import arrow_type, list_values
from moulin.model.schema.defaults import default_value
from moulin.model.schema.values import ListType, MapType, NestedField, StructType

_MAX_OFFSET = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Target:
    """A column, or a field inside one, that values must fit: `path` is its dotted name, `kind` its type as text."""

    path: str
    name: str
    type: pa.DataType
    kind: str
    required: bool
    default: Any
    inner: tuple[Target, ...]
    # Whether a field inside it is required, or a list has a length: even values of the right type are looked through.
    strict: bool
    length: int | None = None

    @classmethod
    def of(cls, field: NestedField, prefix: str = "") -> Target:
        path = prefix + field.name
        inner: tuple[Target, ...] = ()
        length: int | None = None
        match field.field_type:
            case StructType(fields=fields):
                inner = tuple(cls.of(child, f"{path}.") for child in fields)
            case ListType(element_field=element, length=length):
                inner = (cls.of(element, f"{path}."),)
            case MapType(key_field=key, value_field=value):
                inner = (cls.of(key, f"{path}."), cls.of(value, f"{path}."))
        default = None if inner else default_value(field, write=True)
        strict = length is not None or any(child.strict or child.required for child in inner)
        kind = field.field_type
        return cls(path, field.name, arrow_type(kind), str(kind), field.required, default, inner, strict, length)

    @property
    def python_default(self) -> Any:
        """The default as Python's rows have it."""
        return to_python(self.default, self.type)


class Misfit(Exception):
    """A value that does not fit: the path of the field, and why, as a sentence about "it"."""

    def __init__(self, target: Target, reason: str) -> None:
        super().__init__(reason)
        self.path = target.path
        self.reason = reason


class TypeMisfit(Misfit):
    """No value of the array's type would fit."""


def fit(array: pa.Array, target: Target, *, rounding: bool = False) -> pa.Array:
    """`array` in exactly the type of `target`, without a copy where it has it already.

    With `rounding`, doubles become the nearest float; without, only those that floats hold exactly fit a float column.
    """
    return check_required(convert(array, target, rounding), target)


def check_required(array: pa.Array, target: Target, outer_nulls: int = 0) -> pa.Array:
    """`array` when it may stand in `target`: nulls of a required field must all be those of the struct around it.

    Those are taken out, as Parquet wants: what stands in their place is never read.
    """
    if not target.required or array.null_count == 0:
        return array
    if array.null_count > outer_nulls:
        raise Misfit(target, "it is null or missing, but required.")
    return _without_nulls(array)


def absent(target: Target, rows: int) -> pa.Array:
    """What a column holds that the rows do not bring: its default, or null; TypeMisfit when it is required."""
    if target.default is not None:
        return pa.repeat(pa.scalar(target.default, target.type), rows)
    if target.required:
        raise TypeMisfit(target, "it is required, but the data does not have it.")
    return pa.nulls(rows, target.type)


def build_struct(children: Sequence[pa.Array], target: Target, mask: pa.Array | None) -> pa.Array:
    """A struct array from fitted fields, null where `mask` is true."""
    return pa.StructArray.from_arrays(list(children), fields=list(target.type), mask=mask)


def build_list(
    lengths: npt.NDArray[Any], children: Sequence[pa.Array], target: Target, mask: pa.Array | None
) -> pa.Array:
    """A list or map array from the length of each row and the fitted values of all; null where `mask` is true."""
    if target.length is not None:
        given = lengths if mask is None else lengths[~mask.to_numpy(zero_copy_only=False)]
        if (wrong := given[given != target.length]).size:
            raise Misfit(target, f"it has {wrong[0]} elements; each list of this column has {target.length}.")
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    if ends[-1] > _MAX_OFFSET:
        raise Misfit(target, f"it holds more than {_MAX_OFFSET} values.")
    kind = pa.MapArray if pt.is_map(target.type) else pa.ListArray
    return kind.from_arrays(pa.array(ends.astype(np.int32)), *children, type=target.type, mask=mask)


def convert(array: pa.Array, target: Target, rounding: bool) -> pa.Array:
    """`fit`, but for nulls of the field itself: those are not looked at."""
    if array.type.equals(target.type, check_metadata=True) and not target.strict:
        return array
    source = array.type
    if pt.is_null(source):
        return pa.nulls(len(array), target.type)
    if pt.is_dictionary(source):
        return convert(array.dictionary_decode(), target, rounding)
    if pt.is_run_end_encoded(source):
        return convert(pc.run_end_decode(array), target, rounding)
    if isinstance(array, pa.ExtensionArray) and not isinstance(source, pa.UuidType):
        return convert(array.storage, target, rounding)
    if pt.is_struct(target.type) and pt.is_struct(source):
        return _convert_struct(array, target, rounding)
    if pt.is_map(target.type) and pt.is_map(source):
        return _convert_map(array, target, rounding)
    if pt.is_list(target.type) and not pt.is_map(source) and hasattr(source, "value_field"):
        return _convert_list(array, target, rounding)
    if not target.inner and not pt.is_nested(source):
        try:
            converted = convert_leaf(array, target.type, rounding)
        except TypeError as error:
            raise TypeMisfit(target, str(error)) from None
        except (ValueError, pa.ArrowNotImplementedError) as error:
            raise Misfit(target, f"it does not fit type {target.kind} ({error}).") from None
        if converted is not None:
            return converted
    raise TypeMisfit(target, f"values of Arrow type {source} do not fit type {target.kind}.")


def _convert_struct(array: pa.StructArray, target: Target, rounding: bool) -> pa.Array:
    names = [field.name for field in array.type]
    known = {child.name for child in target.inner}
    for index, name in enumerate(names):
        if name not in known:
            raise TypeMisfit(target, f"it has a field {name!r} that the table lacks.{did_you_mean(name, known)}")
        if name in names[:index]:
            raise TypeMisfit(target, f"it has the field {name!r} twice.")
    fields = dict(zip(names, array.flatten(), strict=True))
    children = [
        check_required(convert(fields[child.name], child, rounding), child, array.null_count)
        if child.name in fields
        else absent(child, len(array))
        for child in target.inner
    ]
    return build_struct(children, target, array.is_null() if array.null_count else None)


def _convert_list(array: pa.Array, target: Target, rounding: bool) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    values = fit(list_values(array), target.inner[0], rounding=rounding)
    return build_list(lengths, [values], target, array.is_null() if array.null_count else None)


def _convert_map(array: pa.MapArray, target: Target, rounding: bool) -> pa.Array:
    ends = array.offsets.to_numpy()
    lengths = np.diff(ends)
    mask = array.is_null() if array.null_count else None
    keys, items = array.keys[ends[0] : ends[-1]], array.items[ends[0] : ends[-1]]
    if mask is not None:
        null = mask.to_numpy(zero_copy_only=False)
        kept = pa.array(np.repeat(~null, lengths))
        keys, items, lengths = keys.filter(kept), items.filter(kept), np.where(null, 0, lengths)
    children = [
        fit(values, child, rounding=rounding) for values, child in zip((keys, items), target.inner, strict=True)
    ]
    return build_list(lengths, children, target, mask)


def _without_nulls(array: pa.Array) -> pa.Array:
    """The array with every slot valid; those that were null hold whatever lies in their place."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(kind, _without_nulls(array.storage))
    if pt.is_struct(kind):
        return pa.StructArray.from_arrays([array.field(index) for index in range(kind.num_fields)], fields=list(kind))
    if pt.is_map(kind):
        return pa.MapArray.from_arrays(array.offsets, array.keys, array.items, kind)
    if pt.is_list(kind):
        return pa.ListArray.from_arrays(array.offsets, array.values, type=kind)
    return pa.Array.from_buffers(kind, len(array), [None, *array.buffers()[1:]], 0, array.offset)


__all__ = [
    "Misfit",
    "Target",
    "TypeMisfit",
    "absent",
    "build_list",
    "build_struct",
    "check_required",
    "convert",
    "fit",
]
