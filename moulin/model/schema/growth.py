"""How a schema grows to hold data of another one: columns that it lacks are added, narrower types are widened."""

# Decisions: docs/decisions/0258

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.types as pt

from moulin.errors import InvalidInput
from moulin.model.schema.arrow_reader import column_from_arrow
from moulin.model.schema.change import AddColumn, SchemaChange, WidenColumn
from moulin.model.schema.evolution import is_wider
from moulin.model.schema.types import MAX_PRECISION
from moulin.model.schema.values import (
    DecimalType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    Schema,
    StructType,
)


def growth(schema: Schema, given: pa.Schema, *, widen: bool = True) -> tuple[SchemaChange, ...]:
    """What makes columns of `given` fit into `schema`: new columns, nullable and last among their siblings, and wider
    types. Empty when nothing is to be done, and where no change of the schema can help.

    Structs are looked into, inside lists and maps too, but for the keys of maps. Without `widen`, types stay.
    """
    return tuple(_grown(schema.fields, list(given), "", widen))


def _grown(
    fields: Sequence[NestedField], given: Sequence[pa.Field], prefix: str, widen: bool
) -> Iterator[SchemaChange]:
    known = {field.name: field for field in fields}
    for column in given:
        path = f"{prefix}{column.name}"
        if column.name in known:
            yield from _fitted(known[column.name].field_type, column, path, widen)
        else:
            yield _added(column, path)


def _added(column: pa.Field, path: str) -> AddColumn:
    if pt.is_null(column.type):
        raise InvalidInput(
            f"Column {path} is new and all its values are null, so its type is unknown: cast it, or remove it."
        )
    if "." in column.name:
        raise InvalidInput(
            f"Column {column.name!r} cannot be added by an append, because its name has a dot: rename it."
        )
    found = column_from_arrow(column)
    return AddColumn(path, found.field_type, doc=found.doc)


def _fitted(old: IcebergType, column: pa.Field, path: str, widen: bool) -> Iterator[SchemaChange]:
    kind = _plain(column.type)
    match old:
        case StructType() if pt.is_struct(kind):
            yield from _grown(old.fields, list(kind), f"{path}.", widen)
        case ListType() if not pt.is_map(kind) and hasattr(kind, "value_field"):
            yield from _fitted(old.element_type, kind.value_field, f"{path}.element", widen)
        case MapType() if pt.is_map(kind):
            yield from _fitted(old.value_type, kind.item_field, f"{path}.value", widen)
        case _ if widen and not pt.is_nested(kind) and (wider := _wider(old, column)) is not None:
            yield WidenColumn(path, wider)


def _plain(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, pa.UuidType):
        return _plain(kind.storage_type)
    return _plain(kind.value_type) if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind) else kind


def _wider(old: IcebergType, column: pa.Field) -> IcebergType | None:
    """The type to widen to, so that values of `column` fit; None when they do already, or when no wider type helps."""
    try:
        new = column_from_arrow(column).field_type
    except InvalidInput:
        return None  # such values may fit, or are refused with a better sentence
    if isinstance(old, DecimalType) and isinstance(new, DecimalType) and new.scale < old.scale:
        precision = new.precision - new.scale + old.scale
        new = DecimalType(min(precision, MAX_PRECISION), old.scale)
    return new if is_wider(old, new) else None


__all__ = ["growth"]
