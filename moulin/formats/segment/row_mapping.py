"""Row mapping: rows of a file that was written with an older schema become rows of the schema they are read with.

Columns and the fields inside them are matched by field id, never by name. The plan is made once per file: a conversion
for each column, or None where the stored arrays serve as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.types as pt

from moulin.errors import Corrupt, FailedPrecondition, InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.layout.bounds import bound_from_bytes
from moulin.model.schema.arrow import arrow_field, arrow_type, field_id
from moulin.model.schema.defaults import default_value
from moulin.model.schema.values import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    Schema,
    StructType,
)

_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)
_Convert = Callable[[pa.Array], pa.Array]


class RowMapping:
    """How rows of a file with the Arrow schema `file_schema` become rows of `schema`.

    `columns` names top-level columns of `schema` in the order wanted; None takes all. `name` is the file in messages.
    `constants` are values of columns that the file lacks, as single-value bytes by field id. `stored` is what
    `numbered` makes of `file_schema`, where it is known.
    `leaves` are the indexes of the file's leaf columns to read, ascending; `apply` takes rows of exactly these.
    """

    def __init__(
        self,
        file_schema: pa.Schema,
        schema: Schema,
        columns: Sequence[str] | None = None,
        *,
        name: str = "the file",
        constants: Mapping[int, bytes | None] | None = None,
        stored: Mapping[int, Stored] | None = None,
    ) -> None:
        wanted = _wanted(schema, columns)
        stored = numbered(file_schema) if stored is None else stored
        matches = {
            field.field_id: _match(stored[field.field_id], field.field_type, f"Column {field.name!r} of {name}")
            for field in wanted
            if field.field_id in stored
        }
        indexes = {number: index for index, number in enumerate(sorted(matches, key=lambda found: stored[found].leaf))}
        self.schema: pa.Schema = pa.schema([arrow_field(field) for field in wanted])
        self.leaves: tuple[int, ...] = tuple(sorted(leaf for match in matches.values() for leaf in match.leaves))
        self._name = name
        self._columns = tuple(
            _Column(field.name, indexes[field.field_id], matches[field.field_id].convert)
            if field.field_id in matches
            else _Column(field.name, None, _constant(field, constants) or _filler(field, name))
            for field in wanted
        )

    def apply(self, rows: _Rows) -> _Rows:
        """The rows in the types and order of `self.schema`. What is stored that way already is not copied.

        Raises FailedPrecondition when a stored value is outside of the range of the type that it was widened to.
        """
        if not self._columns:
            return rows.select([])
        arrays = [
            self._array(rows, column, field.type) for column, field in zip(self._columns, self.schema, strict=True)
        ]
        return type(rows).from_arrays(arrays, schema=self.schema)

    def _array(self, rows: pa.Table | pa.RecordBatch, column: _Column, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
        if column.index is None:
            assert column.convert is not None
            return column.convert(rows)
        stored = rows.column(column.index)
        if column.convert is None:
            return stored
        try:
            if isinstance(stored, pa.ChunkedArray):
                return pa.chunked_array([column.convert(chunk) for chunk in stored.chunks], kind)
            return column.convert(stored)
        except pa.ArrowInvalid as error:
            raise FailedPrecondition(
                f"Column {column.name!r} of {self._name} holds a value that type {kind} cannot hold "
                f"({str(error).splitlines()[0]}): read an older version, or delete those rows there."
            ) from error


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the result: the one read at `index`, converted; or, when that is None, made up by `convert`."""

    name: str
    index: int | None
    convert: _Convert | None


@dataclass(frozen=True, slots=True)
class Stored:
    """A field of the file, and the index of its first leaf."""

    field: pa.Field
    leaf: int


@dataclass(frozen=True, slots=True)
class _Match:
    """The leaves to read of a stored field, its type when only these are read, and what makes the wanted type of it."""

    leaves: tuple[int, ...]
    type: pa.DataType
    convert: _Convert | None


def _wanted(schema: Schema, columns: Sequence[str] | None) -> list[NestedField]:
    if columns is None:
        return list(schema.fields)
    known = {field.name: field for field in schema.fields}
    for name in columns:
        if name not in known:
            raise InvalidInput(f"There is no column {name!r}; choose from {', '.join(known)}.")
    return [known[name] for name in columns]


def numbered(fields: Iterable[pa.Field], leaf: int = 0) -> dict[int, Stored]:
    """Stored fields by their id; those without one cannot be asked for."""
    found: dict[int, Stored] = {}
    for field in fields:
        number = field_id(field)
        if number is not None:
            found[number] = Stored(field, leaf)
        leaf += _leaf_count(field.type)
    return found


def _leaf_count(kind: pa.DataType) -> int:
    if pt.is_nested(kind):
        return sum(_leaf_count(kind.field(index).type) for index in range(kind.num_fields))
    return 1


def _match(stored: Stored, wanted: IcebergType, where: str) -> _Match:
    kind = stored.field.type
    match wanted:
        case StructType() if pt.is_struct(kind):
            return _match_struct(stored, wanted, where)
        case MapType() if pt.is_map(kind):
            return _match_map(stored, wanted, where)
        case ListType() if pt.is_nested(kind) and not pt.is_struct(kind) and not pt.is_map(kind):
            return _match_list(stored, wanted, where)
    if pt.is_nested(kind) or not wanted.is_primitive:
        raise Corrupt(f"{where} is stored as {kind}, which is no {wanted}: run `moulin check`.")
    target = arrow_type(wanted)
    return _Match((stored.leaf,), kind, None if kind == target else lambda array: array.cast(target))


def _match_struct(stored: Stored, wanted: StructType, where: str) -> _Match:
    children = numbered(stored.field.type, stored.leaf)
    matches = {
        child.field_id: _match(children[child.field_id], child.field_type, f"{where}, field {child.name!r},")
        for child in wanted.fields
        if child.field_id in children
    }
    if not matches:
        return _match_new_struct(stored, wanted, where)
    order = sorted(matches, key=lambda number: children[number].leaf)
    kind = pa.struct([children[number].field.with_type(matches[number].type) for number in order])
    leaves = tuple(leaf for number in order for leaf in matches[number].leaves)
    target = arrow_type(wanted)
    if kind == target and all(match.convert is None for match in matches.values()):
        return _Match(leaves, kind, None)
    sources = [
        (order.index(child.field_id), matches[child.field_id].convert)
        if child.field_id in matches
        else (None, _filler(child, where))
        for child in wanted.fields
    ]

    def convert(array: pa.StructArray) -> pa.Array:
        fields = [_child(array, index, change) for index, change in sources]
        return pa.StructArray.from_arrays(fields, fields=list(target), mask=_null_mask(array))

    return _Match(leaves, kind, convert)


def _match_new_struct(stored: Stored, wanted: StructType, where: str) -> _Match:
    """No stored field is wanted: the first one is read all the same, for it tells where the struct is null."""
    first, target = stored.field.type.field(0), arrow_type(wanted)
    leaves = range(stored.leaf, stored.leaf + _leaf_count(first.type))
    fillers = [_filler(child, where) for child in wanted.fields]

    def convert(array: pa.StructArray) -> pa.Array:
        fields = [fill(array) for fill in fillers]
        return pa.StructArray.from_arrays(fields, fields=list(target), mask=_null_mask(array))

    return _Match(tuple(leaves), pa.struct([first]), convert)


def _match_list(stored: Stored, wanted: ListType, where: str) -> _Match:
    element = _match(Stored(stored.field.type.value_field, stored.leaf), wanted.element_type, where)
    target = arrow_type(wanted)
    kind = pa.list_(stored.field.type.value_field.with_type(element.type))
    if element.convert is None and kind == target:
        return _Match(element.leaves, kind, None)

    def convert(array: pa.Array) -> pa.Array:
        array = array if pt.is_list(array.type) else array.cast(kind)
        offsets, first, count = _offsets(array)
        values = _changed(array.values.slice(first, count), element.convert)
        return pa.ListArray.from_arrays(offsets, values, type=target, mask=_null_mask(array))

    return _Match(element.leaves, kind, convert)


def _match_map(stored: Stored, wanted: MapType, where: str) -> _Match:
    source = stored.field.type
    key = _match(Stored(source.key_field, stored.leaf), wanted.key_type, where)
    value_leaf = stored.leaf + _leaf_count(source.key_field.type)
    value = _match(Stored(source.item_field, value_leaf), wanted.value_type, where)
    target = arrow_type(wanted)
    kind = pa.map_(source.key_field.with_type(key.type), source.item_field.with_type(value.type))
    # A key of which only a part is read makes pyarrow give a list of structs.
    whole = len(key.leaves) == value_leaf - stored.leaf
    if whole and key.convert is None and value.convert is None and kind == target:
        return _Match(key.leaves + value.leaves, kind, None)

    def convert(array: pa.Array) -> pa.Array:
        offsets, first, count = _offsets(array)
        entries = array.values.slice(first, count)
        keys, values = _changed(entries.field(0), key.convert), _changed(entries.field(1), value.convert)
        return pa.MapArray.from_arrays(offsets, keys, values, type=target, mask=_null_mask(array))

    return _Match(key.leaves + value.leaves, kind, convert)


def _constant(field: NestedField, constants: Mapping[int, bytes | None] | None) -> _Convert | None:
    """What a column holds that has one value in the whole file; None when it is not such a column."""
    if not constants or field.field_id not in constants:
        return None
    kind, data = arrow_type(field.field_type), constants[field.field_id]
    if data is None:
        return lambda rows: _blank(kind, len(rows))
    assert isinstance(field.field_type, PrimitiveType)
    scalar = arrow_scalar(field.field_type, bound_from_bytes(field.field_type, data))
    return lambda rows: pa.repeat(scalar, len(rows))


def arrow_scalar(kind: PrimitiveType, value: Any) -> pa.Scalar:
    """A value as bounds and constants have it, in the Arrow type of `kind`: times are numbers there."""
    target = arrow_type(kind)
    if isinstance(value, int) and pt.is_temporal(target):
        return pa.scalar(value, pa.int32() if pt.is_date(target) else pa.int64()).cast(target)
    return pa.scalar(value, target)


def _filler(field: NestedField, where: str) -> _Convert:
    """What a column holds in rows that were stored before it was added: its default, or null."""
    kind, default = arrow_type(field.field_type), default_value(field)
    if default is not None:
        scalar = pa.scalar(default, kind)
        return lambda rows: pa.repeat(scalar, len(rows))
    if field.required:
        raise Corrupt(
            f"Column {field.name!r} is required and has no default, but {where} lacks it: run `moulin check`."
        )
    return lambda rows: _blank(kind, len(rows))


def _blank(kind: pa.DataType, rows: int, *, null: bool = True) -> pa.Array:
    """Nulls. Below a null struct, required fields hold an empty value: Parquet refuses null there."""
    if pt.is_struct(kind):
        children = [_blank(child.type, rows, null=child.nullable) for child in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.repeat(True, rows) if null else None)
    blank = pa.nulls(rows, kind)
    if null:
        return blank
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _blank(kind.storage_type, rows, null=False))
    if pt.is_map(kind):
        return pa.MapArray.from_arrays(blank.offsets, blank.keys, blank.items, type=kind)
    if pt.is_list(kind):
        return pa.ListArray.from_arrays(blank.offsets, blank.values, type=kind)
    return pa.Array.from_buffers(kind, rows, [None, *blank.buffers()[1:]])


def _child(array: pa.StructArray, index: int | None, change: _Convert | None) -> pa.Array:
    return _changed(array if index is None else array.field(index), change)


def _changed(array: pa.Array, change: _Convert | None) -> pa.Array:
    return array if change is None else change(array)


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _offsets(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Offsets from 0, and the slice of the child arrays that they are for."""
    offsets = array.offsets
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    return (pc.subtract(offsets, first) if first or offsets.offset else offsets), first, last - first


__all__ = ["RowMapping", "Stored", "arrow_scalar", "numbered"]
