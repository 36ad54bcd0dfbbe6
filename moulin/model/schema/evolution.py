"""Applies changes to a schema.

Field ids are never reused: a column added after one of the same name was dropped is another column. Data files are
never rewritten: readers map them to the current schema by field id, widen their values and fill in what they lack.
"""

# Decisions: docs/decisions/0493

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from moulin.errors import AlreadyExists, Conflict, FailedPrecondition, InvalidInput
from moulin.model.schema.change import (
    AddColumn,
    CastColumn,
    DropColumn,
    FillColumn,
    MoveColumn,
    RenameColumn,
    ReplaceColumns,
    SchemaChange,
    SetDefault,
    SetDoc,
    SetNullable,
    SetRequired,
    WidenColumn,
)
from moulin.model.schema.defaults import widen_default
from moulin.model.schema.schema import MAX_FIELD_ID, check_field_count, make_schema, nested_ids, unknown_column
from moulin.model.schema.types import renumber
from moulin.model.schema.values import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    Schema,
    StructType,
    TimestampNanoType,
    TimestampType,
)


def apply_changes(
    schema: Schema,
    last_column_id: int,
    changes: Sequence[SchemaChange],
    *,
    schema_id: int,
    in_use: Collection[int] | Mapping[int, str] = (),
    partition_names: Collection[str] = (),
    partition_sources: Collection[int] = (),
) -> tuple[Schema, int]:
    """The schema after `changes`, in order, with `schema_id`, and the new last column id.

    `in_use` holds the ids of fields that partitioning, sort order or event time rest on; as a mapping it names, for
    errors, which of them. Those and the key cannot be dropped. New top-level names must not be among `partition_names`.
    `partition_sources` are the source ids of every partitioning the table has had: stored partition values hold their
    types, so no change may make them mean something else. All columns may be dropped when others are added after that.
    """
    last_id = max(last_column_id, schema.highest_field_id)
    rules = _Rules(last_id, set(schema.identifier_field_ids), in_use, partition_names, partition_sources)
    columns = StructType(*schema.fields)
    for change in changes:
        if isinstance(change, ReplaceColumns):
            columns = _replaced(columns, change, rules)
        else:
            columns = _apply(columns, change, rules)
    if lacks_fields(columns):
        last = next(change.name for change in reversed(changes) if isinstance(change, DropColumn))
        raise FailedPrecondition(f"Column {last} cannot be dropped: it is the only one.")
    check_field_count(len(nested_ids(NestedField(0, "", columns))) - 1)
    result = Schema(
        *columns.fields,
        schema_id=schema_id,
        identifier_field_ids=schema.identifier_field_ids,
        metadata=schema.metadata,
    )
    return result, rules.last_id


def lacks_fields(kind: IcebergType) -> bool:
    """Whether a struct without fields is in `kind`."""
    match kind:
        case StructType():
            return not kind.fields or any(lacks_fields(field.field_type) for field in kind.fields)
        case ListType():
            return lacks_fields(kind.element_type)
        case MapType():
            return lacks_fields(kind.value_type)
    return False


@dataclass(slots=True)
class _Rules:
    """What changes must respect, and the ids they use up."""

    last_id: int
    key: set[int]
    in_use: Collection[int] | Mapping[int, str]
    partition_names: Collection[str]
    partition_sources: Collection[int]

    def next_id(self) -> int:
        if self.last_id >= MAX_FIELD_ID:
            raise FailedPrecondition("The table has used up its field ids: copy its rows to a new table.")
        self.last_id += 1
        return self.last_id

    def use_of(self, field_id: int) -> str | None:
        if field_id in self.key:
            return "the primary key"
        if field_id not in self.in_use:
            return None
        return self.in_use[field_id] if isinstance(self.in_use, Mapping) else "partitioning, sort order or event time"

    def check_free(self, siblings: Sequence[NestedField], path: tuple[str, ...], new: str) -> None:
        taken = next((field.name for field in siblings if field.name.lower() == new.lower()), None)
        if taken is not None:
            raise AlreadyExists(f"Column already exists: {'.'.join((*path[:-1], taken))!r}: choose another name.")
        if len(path) == 1 and new.lower() in {name.lower() for name in self.partition_names}:
            raise AlreadyExists(f"{new!r} is the name of a partition field: choose another name for the column.")


class _Missing(Exception):
    """No field of that name, the exception's argument, where the path leads."""


_Siblings = list[NestedField]


def _apply(columns: StructType, change: SchemaChange, rules: _Rules) -> StructType:
    path = tuple(change.name.split("."))
    try:
        result = _edit(columns, path, lambda siblings: _EDITS[type(change)](siblings, path, change, rules))
    except _Missing as missing:
        name = change.name if missing.args[0] in path else ".".join((*path[:-1], missing.args[0]))
        raise unknown_column(Schema(*columns.fields), name) from None
    assert isinstance(result, StructType)
    return result


def _edit(kind: IcebergType, path: tuple[str, ...], edit: Callable[[_Siblings], _Siblings]) -> IcebergType:
    """`kind` with the siblings of the field that `path` leads to replaced by what `edit` makes of them."""
    head, rest = path[0], path[1:]
    if isinstance(kind, StructType):
        if not rest:
            return StructType(*edit(list(kind.fields)))
        index = _index_of(kind.fields, head)
        inner = kind.fields[index]
        changed = replace(inner, field_type=_edit(inner.field_type, rest, edit))
        return StructType(*kind.fields[:index], changed, *kind.fields[index + 1 :])
    if isinstance(kind, ListType):
        element = _edit_inner(kind.element_field, path, edit)
        return ListType(kind.element_id, element.field_type, element.required, kind.length)
    if isinstance(kind, MapType):
        if head == "key":
            raise InvalidInput("Keys of a map cannot be changed: add another column instead.")
        value = _edit_inner(kind.value_field, path, edit)
        return MapType(kind.key_id, kind.key_type, kind.value_id, value.field_type, value.required)
    raise _Missing(head)


def _edit_inner(inner: NestedField, path: tuple[str, ...], edit: Callable[[_Siblings], _Siblings]) -> NestedField:
    if path[0] == inner.name and len(path) > 1:
        return replace(inner, field_type=_edit(inner.field_type, path[1:], edit))
    if path[0] != inner.name:  # a struct inside may be named by the list or map itself
        return replace(inner, field_type=_edit(inner.field_type, path, edit))
    edited = edit([inner])
    if [field.name for field in edited] != [inner.name]:
        raise InvalidInput(f"The {inner.name} of a list or map can only be widened or made nullable.")
    return edited[0]


def _index_of(siblings: Sequence[NestedField], name: str) -> int:
    for index, field in enumerate(siblings):
        if field.name == name:
            return index
    raise _Missing(name)


def _add(siblings: _Siblings, path: tuple[str, ...], change: AddColumn, rules: _Rules) -> _Siblings:
    rules.check_free(siblings, path, path[-1])
    number = rules.next_id()
    kind = renumber(change.type, rules.next_id)
    added = NestedField(number, path[-1], kind, change.required, change.doc, change.default, change.default)
    return [*siblings, added]


def _replaced(columns: StructType, change: ReplaceColumns, rules: _Rules) -> StructType:
    if rules.key:
        raise FailedPrecondition(
            "The columns of a table with a primary key cannot be replaced: drop it and create a new one."
        )
    new = change.type
    assert isinstance(new, StructType)
    before = Schema(*columns.fields)
    make_schema(Schema(*new.fields))  # refuses names and types that no table may have
    numbers = sorted(nested_ids(NestedField(0, "", new)) - {0})
    if not 0 < numbers[0] <= numbers[-1] <= MAX_FIELD_ID or len(numbers) != _count(new):
        raise InvalidInput(f"Each column must have a distinct field id, from 1 to {MAX_FIELD_ID}.")
    fresh = [number for number in numbers if number > rules.last_id]
    if fresh != list(range(rules.last_id + 1, rules.last_id + 1 + len(fresh))):
        raise InvalidInput(f"New columns must have the field ids that follow {rules.last_id}, and not {fresh[-1]}.")
    for name in (field.name for field in new.fields):
        if name.lower() in {one.lower() for one in rules.partition_names} - {f.name.lower() for f in columns.fields}:
            raise AlreadyExists(f"{name!r} is the name of a partition field: choose another name for the column.")
    after = Schema(*new.fields)
    for number in set(rules.partition_sources) & set(before.field_ids) & set(after.field_ids):
        if before.find_type(number) != after.find_type(number):
            raise FailedPrecondition(
                f"Column {before.find_column_name(number)} keeps its type: the table is or was partitioned by it. Drop "
                "the table and make another, or give the column another name."
            )
    rules.last_id = max(rules.last_id, after.highest_field_id)
    return new


def _count(kind: IcebergType) -> int:
    """How many fields are inside a type."""
    match kind:
        case StructType():
            return sum(1 + _count(field.field_type) for field in kind.fields)
        case ListType():
            return 1 + _count(kind.element_type)
        case MapType():
            return 2 + _count(kind.key_type) + _count(kind.value_type)
    return 0


def _rename(siblings: _Siblings, path: tuple[str, ...], change: RenameColumn, rules: _Rules) -> _Siblings:
    index = _index_of(siblings, path[-1])
    rules.check_free([*siblings[:index], *siblings[index + 1 :]], path, change.new_name)
    siblings[index] = replace(siblings[index], name=change.new_name)
    return siblings


def _drop(siblings: _Siblings, path: tuple[str, ...], change: DropColumn, rules: _Rules) -> _Siblings:
    dropped = siblings.pop(_index_of(siblings, path[-1]))
    for field_id in sorted(nested_ids(dropped)):
        if field_id in rules.key:
            raise FailedPrecondition(f"Column {change.name} cannot be dropped: it is part of the primary key.")
        if (use := rules.use_of(field_id)) is not None:
            raise FailedPrecondition(f"Column {change.name} cannot be dropped: {use} uses it. Change that first.")
    return siblings


def _widen(siblings: _Siblings, path: tuple[str, ...], change: WidenColumn, rules: _Rules) -> _Siblings:
    index = _index_of(siblings, path[-1])
    field, new = siblings[index], change.type
    old = field.field_type
    if not is_wider(old, new):
        raise InvalidInput(
            f"Column {change.name} of type {old} cannot become {new}: only int to long, float to double, decimal to "
            "more digits of the same scale, and date to timestamp or timestamp_ns are possible."
        )
    use = rules.use_of(field.field_id) or (
        "earlier partitioning" if field.field_id in rules.partition_sources else None
    )
    if isinstance(old, DateType) and use is not None:
        raise FailedPrecondition(
            f"Column {change.name} cannot become {new}: {use} uses its days, and stored values would not match."
        )
    siblings[index] = replace(
        field,
        field_type=new,
        initial_default=widen_default(old, new, field.initial_default),
        write_default=widen_default(old, new, field.write_default),
    )
    return siblings


def _cast(siblings: _Siblings, path: tuple[str, ...], change: CastColumn, rules: _Rules) -> _Siblings:
    index = _index_of(siblings, path[-1])
    field = siblings[index]
    for inner in sorted(nested_ids(field)):
        use = rules.use_of(inner) or ("earlier partitioning" if inner in rules.partition_sources else None)
        if use is not None:
            raise FailedPrecondition(
                f"Column {change.name} cannot become {change.type}: {use} uses it. Add another column instead."
            )
    if len(path) > 1 or not all(isinstance(kind, PrimitiveType) for kind in (field.field_type, change.type)):
        raise InvalidInput(
            f"Column {change.name} of type {field.field_type} cannot be cast to {change.type}: only columns of "
            f"simple types can, not structs, lists, maps and their fields."
        )
    siblings[index] = replace(
        field,
        field_id=rules.next_id(),
        field_type=change.type,
        initial_default=change.default,
        write_default=change.default,
    )
    return siblings


def _fill(siblings: _Siblings, path: tuple[str, ...], change: FillColumn, rules: _Rules) -> _Siblings:
    index = _index_of(siblings, path[-1])
    placed = replace(siblings[index], field_id=change.number, field_type=change.type)
    if (use := rules.use_of(siblings[index].field_id)) is not None:
        raise FailedPrecondition(f"Column {change.name} cannot be filled: {use} uses it. Change that first.")
    if max(nested_ids(placed)) > rules.last_id:
        raise InvalidInput(f"Column {change.name} cannot get field id {change.number}, which was never allocated.")
    siblings[index] = placed
    return siblings


def is_wider(old: IcebergType, new: IcebergType) -> bool:
    match old, new:
        case (IntegerType(), LongType()) | (FloatType(), DoubleType()):
            return True
        case DecimalType(), DecimalType():
            return new.scale == old.scale and new.precision > old.precision
        case DateType(), (TimestampType() | TimestampNanoType()):
            return True
    return False


def loses_values(written: Schema, current: Schema) -> str | None:
    """The name of a column whose values, in files of `written`, nobody would see any more, as another has its name.

    That is so after a cast, and after a drop of a column and an addition of its name. None when there is none.
    """
    now = {field.name: field.field_id for field in current.fields}
    known, ids = set(current.field_ids), set(written.field_ids)
    for field in written.fields:
        successor = now.get(field.name)
        if successor is not None and field.field_id not in known and successor not in ids:
            return field.name
    return None


def _move(siblings: _Siblings, path: tuple[str, ...], change: MoveColumn, rules: _Rules) -> _Siblings:
    moved = siblings.pop(_index_of(siblings, path[-1]))
    if change.first:
        target = 0
    elif change.after is not None:
        target = _index_of(siblings, change.after) + 1
    else:
        target = _index_of(siblings, change.before or "")
    siblings.insert(target, moved)
    return siblings


def _set_nullable(siblings: _Siblings, path: tuple[str, ...], change: SetNullable, rules: _Rules) -> _Siblings:
    index = _index_of(siblings, path[-1])
    if siblings[index].field_id in rules.key:
        raise FailedPrecondition(f"Column {change.name} cannot become nullable: it is part of the primary key.")
    siblings[index] = replace(siblings[index], required=False)
    return siblings


def _set_required(siblings: _Siblings, path: tuple[str, ...], change: SetRequired, rules: _Rules) -> _Siblings:
    index = _index_of(siblings, path[-1])
    if len(path) > 1:
        raise InvalidInput(f"{change.name} is inside a column: only whole columns can become NOT NULL.")
    siblings[index] = replace(siblings[index], required=True)
    return siblings


def _set_doc(siblings: _Siblings, path: tuple[str, ...], change: SetDoc, rules: _Rules) -> _Siblings:
    index = _index_of(siblings, path[-1])
    siblings[index] = replace(siblings[index], doc=change.doc)
    return siblings


def _set_default(siblings: _Siblings, path: tuple[str, ...], change: SetDefault, rules: _Rules) -> _Siblings:
    index = _index_of(siblings, path[-1])
    if siblings[index].field_type != change.type:
        raise Conflict(f"Column {change.name} now has type {siblings[index].field_type}: set its default again.")
    siblings[index] = replace(siblings[index], write_default=change.default)
    return siblings


_EDITS: Mapping[type, Callable[[_Siblings, tuple[str, ...], Any, _Rules], _Siblings]] = MappingProxyType(
    {
        AddColumn: _add,
        RenameColumn: _rename,
        DropColumn: _drop,
        WidenColumn: _widen,
        CastColumn: _cast,
        FillColumn: _fill,
        MoveColumn: _move,
        SetNullable: _set_nullable,
        SetRequired: _set_required,
        SetDoc: _set_doc,
        SetDefault: _set_default,
    }
)
