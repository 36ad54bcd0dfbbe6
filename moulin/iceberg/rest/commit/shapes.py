"""Schemas, partition specs and sort orders of requests, and the lake's own operations that lead to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import ValidationError
from pyiceberg.exceptions import ValidationError as IcebergError

from moulin.errors import InvalidInput, Unsupported
from moulin.iceberg.format import pyiceberg_values
from moulin.iceberg.format.json import Json
from moulin.model.branch_ids import next_schema_id
from moulin.model.entities import TableState
from moulin.model.layout.partition import FIRST_FIELD_ID, adopt_spec, call_text, parse_spec
from moulin.model.layout.partition_spec import IdentityTransform, PartitionField, PartitionSpec
from moulin.model.layout.sort_order import UNSORTED_SORT_ORDER, NullOrder, SortField, SortOrder
from moulin.model.operations import SetPartitioning
from moulin.model.schema.change import (
    AddColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SchemaChange,
    SetDefault,
    SetDoc,
    SetNullable,
    WidenColumn,
)
from moulin.model.schema.evolution import apply_changes
from moulin.model.schema.values import IcebergType, ListType, MapType, NestedField, Schema, StructType

_T = TypeVar("_T")


def read_schema(document: Json) -> Schema:
    _refuse_types(document)
    return _read(pyiceberg_values.read_schema, document, "schema")


_NOT_STORED = ("variant", "geometry", "geography", "unknown")


def _refuse_types(value: Any) -> None:
    """Refuse types of format version 3 that segments cannot hold: readers here would lose their values."""
    if isinstance(value, dict):
        kinds = [value.get(name) for name in ("type", "element", "key", "value")]
        for kind in (one for one in kinds if isinstance(one, str)):
            if kind.partition("(")[0].strip() in _NOT_STORED:
                raise Unsupported(
                    f"Columns of type {kind[:60]} are not stored: keep the value as a string (JSON, WKT) or as binary "
                    "(WKB)."
                )
        for inner in value.values():
            _refuse_types(inner)
    elif isinstance(value, list):
        for inner in value:
            _refuse_types(inner)


def read_spec(document: Json) -> PartitionSpec:
    given = dict(document)
    fields = given.get("fields") or []
    if isinstance(fields, list) and all(isinstance(one, dict) for one in fields):
        given_ids = [one["field-id"] for one in fields if isinstance(one.get("field-id"), int)]
        first = max([FIRST_FIELD_ID - 1, *given_ids]) + 1
        given["fields"] = [{"field-id": first + index, **one} for index, one in enumerate(fields)]
    return _read(pyiceberg_values.read_spec, {"spec-id": 0, **given}, "partition spec")


def read_order(document: Json) -> SortOrder:
    order = _read(pyiceberg_values.read_order, {"order-id": 1, **document}, "sort order")
    return SortOrder(*order.fields, order_id=1) if order.fields else UNSORTED_SORT_ORDER


_UNREADABLE = (
    ValidationError,
    IcebergError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


def _read(read: Callable[[Json], _T], document: Json, what: str) -> _T:
    try:
        return read(document)
    except _UNREADABLE as error:
        raise InvalidInput(f"The {what} cannot be read ({' '.join(str(error).split())[:300]}).") from None


def same_fields(one: Schema, other: Schema) -> bool:
    return one.as_struct() == other.as_struct() and set(one.identifier_field_ids) == set(other.identifier_field_ids)


def schema_changes(state: TableState, wanted: Schema) -> tuple[tuple[SchemaChange, ...], TableState]:
    """The changes from the table's schema to `wanted`, and the table with that schema. Rejected if impossible."""
    old = StructType(*state.schema.fields)
    new = StructType(*wanted.fields)
    changes = [*_dropped(old, new, ""), *_changed(old, new, "")]
    added = sorted(_added(old, new, ""), key=lambda one: one[0])
    changes += [change for _, change in added]
    sources = [f.source_id for spec in state.specs.values() for f in spec.fields]

    def apply() -> tuple[Schema, int]:
        next_id = next_schema_id(state.schemas, state.last_column_id)
        return apply_changes(state.schema, state.last_column_id, changes, schema_id=next_id, partition_sources=sources)

    changes += _moved(StructType(*apply()[0].fields), new, "")
    made, last = apply()
    if not same_fields(made, wanted):
        raise InvalidInput(
            f"The schema of {state.full_name} cannot become the one that was sent: columns are added with the next "
            "field ids, dropped, renamed, moved, widened or made nullable; the key and initial defaults stay."
        )
    schemas = {**state.schemas, made.schema_id: made}
    return tuple(changes), replace(state, schemas=schemas, schema_id=made.schema_id, last_column_id=last)


def _pairs(old: StructType, new: StructType) -> Iterator[tuple[NestedField, NestedField]]:
    known = {field.field_id: field for field in old.fields}
    yield from ((known[field.field_id], field) for field in new.fields if field.field_id in known)


def _inside(old: IcebergType, new: IcebergType, path: str) -> Iterator[tuple[StructType, StructType, str]]:
    """The structs in a type that stayed, with the paths to them."""
    match old, new:
        case StructType(), StructType():
            yield old, new, f"{path}."
        case ListType(), ListType():
            yield from _inside(old.element_type, new.element_type, f"{path}.element")
        case MapType(), MapType():
            yield from _inside(old.value_type, new.value_type, f"{path}.value")


def _dropped(old: StructType, new: StructType, path: str) -> Iterator[SchemaChange]:
    kept = {field.field_id for field in new.fields}
    for field in old.fields:
        if field.field_id not in kept:
            yield DropColumn(f"{path}{field.name}")
    for before, after in _pairs(old, new):
        for inner in _inside(before.field_type, after.field_type, f"{path}{before.name}"):
            yield from _dropped(*inner)


def _changed(old: StructType, new: StructType, path: str) -> Iterator[SchemaChange]:
    for before, after in _pairs(old, new):
        name = f"{path}{before.name}"
        for inner in _inside(before.field_type, after.field_type, name):
            yield from _changed(*inner)
        if before.field_type.is_primitive and after.field_type != before.field_type:
            yield WidenColumn(name, after.field_type)
        if before.required and not after.required:
            yield SetNullable(name)
        if before.doc != after.doc:
            yield SetDoc(name, after.doc)
        if before.write_default != after.write_default and before.field_type == after.field_type:
            yield SetDefault(name, after.field_type, after.write_default)
        if before.name != after.name:
            yield RenameColumn(name, after.name)


def _added(old: StructType, new: StructType, path: str) -> Iterator[tuple[int, SchemaChange]]:
    """New columns with the ids that they should get. Paths are those after renames."""
    known = {field.field_id for field in old.fields}
    for field in new.fields:
        if field.field_id not in known:
            default = field.initial_default
            yield field.field_id, AddColumn(f"{path}{field.name}", field.field_type, default, field.required, field.doc)
    for before, after in _pairs(old, new):
        for inner in _inside(before.field_type, after.field_type, f"{path}{after.name}"):
            yield from _added(*inner)


def _moved(old: StructType, new: StructType, path: str) -> Iterator[SchemaChange]:
    order = [field.name for field in old.fields]
    wanted = [field.name for field in new.fields]
    if sorted(order) == sorted(wanted):
        for index, name in enumerate(wanted):
            if order[index] != name:
                order.remove(name)
                order.insert(index, name)
                after = None if index == 0 else wanted[index - 1]
                yield MoveColumn(f"{path}{name}", first=index == 0, after=after)
    for before, after_field in _pairs(old, new):
        for inner in _inside(before.field_type, after_field.field_type, f"{path}{after_field.name}"):
            yield from _moved(*inner)


def spec_texts(spec: PartitionSpec, schema: Schema) -> tuple[str, ...]:
    """The fields of a spec as the lake spells them: `day(ts)`, `bucket(16, id)`."""
    return tuple(_spec_text(field, schema) for field in spec.fields)


def _spec_text(field: PartitionField, schema: Schema) -> str:
    name = schema.find_column_name(field.source_id)
    if name is None:
        raise InvalidInput(
            f"Partition field {field.name!r} uses a column with id {field.source_id}, which does not exist."
        )
    return call_text(field.transform, name)


def changed_spec(state: TableState, wanted: PartitionSpec) -> tuple[SetPartitioning, TableState]:
    """The operation that gives a table this spec, with its ids and names, and the table as it leaves it."""
    texts = spec_texts(wanted, state.schema)
    previous, last = list(state.specs.values()), state.last_partition_id
    made, last = adopt_spec(wanted, texts, state.schema, previous=previous, last_partition_id=last)
    after = replace(state, specs={**state.specs, made.spec_id: made}, spec_id=made.spec_id, last_partition_id=last)
    return SetPartitioning(texts, wanted), after


def new_spec(wanted: PartitionSpec, given: Schema, schema: Schema) -> tuple[PartitionSpec, int]:
    """The spec of a new table with renumbered columns; its fields keep their names."""
    texts = spec_texts(wanted, given)
    made, last = parse_spec(texts, schema)
    taken = {name.lower() for name in schema.column_names}
    fields = [
        PartitionField(own.source_id, own.field_id, own.transform, _field_name(asked, own, taken))
        for asked, own in zip(wanted.fields, made.fields, strict=True)
    ]
    return PartitionSpec(*fields, spec_id=0), last


def _field_name(asked: PartitionField, own: PartitionField, columns: set[str]) -> str:
    """The name asked for, unless it is a column's that it does not stand for."""
    fits = asked.name.lower() not in columns or isinstance(own.transform, IdentityTransform)
    return asked.name if fits and asked.name else own.name


def new_order(wanted: SortOrder, given: Schema, schema: Schema) -> SortOrder:
    """The sort order of a new table with renumbered columns."""
    if not wanted.fields:
        return UNSORTED_SORT_ORDER
    fields = []
    for one in wanted.fields:
        name = given.find_column_name(one.source_id)
        if name is None:
            raise InvalidInput(f"The sort order uses a column with id {one.source_id}, which does not exist.")
        fields.append(replace(one, source_id=schema.find_field(name).field_id))
    return SortOrder(*fields, order_id=1)


def sort_texts(order: SortOrder, schema: Schema) -> tuple[str, ...]:
    """The fields of a sort order as the lake spells them: `ts desc nulls last`."""
    return tuple(_sort_text(field, schema) for field in order.fields)


def _sort_text(field: SortField, schema: Schema) -> str:
    name = schema.find_column_name(field.source_id)
    if name is None:
        raise InvalidInput(f"The sort order uses a column with id {field.source_id}, which does not exist.")
    nulls = "first" if field.null_order is NullOrder.NULLS_FIRST else "last"
    return f"{call_text(field.transform, name)} {field.direction.value} nulls {nulls}"


def last_added(values: Sequence[Any], what: str) -> Any:
    """The value that -1 stands for."""
    if not values:
        raise InvalidInput(f"-1 stands for the last added {what}, and none was added.")
    return values[-1]
