"""Matches the columns of a Parquet file with those of a table: by name, or by field id if it has some.

The result is computed once for all files with one schema. It maps each element of the Parquet schema to a field id of
the table.
"""

# Decisions: docs/decisions/0431

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
import pyarrow.types as pt

from moulin.errors import InvalidInput
from moulin.formats.segment.foreign import INT96, REPEATED, Element
from moulin.model.schema.arrow_reader import type_from_arrow
from moulin.model.schema.values import (
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
    TimestamptzType,
)

By = Literal["auto", "name", "id", "own"]
"""How columns are matched. "own" trusts the field ids of files that have some, and is for imports."""
Extra = Literal["error", "ignore"]
_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())


@dataclass(frozen=True, slots=True)
class TableColumns:
    """What files are matched with: the columns of the table, all names that each has had, and the highest field id."""

    schema: Schema
    names: Mapping[int, frozenset[str]]
    last_id: int
    by: By
    extra: Extra


@dataclass(frozen=True, slots=True)
class Matched:
    """A field id for each element of a Parquet schema, 0 for none; the columns of the table that files lack.

    `unsure` are required columns that the file may have nulls in, by what its schema says.
    """

    field_ids: tuple[int, ...]
    missing: tuple[NestedField, ...]
    unsure: tuple[NestedField, ...]
    other_ids: bool


def match_columns(
    elements: Sequence[Element], arrow: pa.Schema, table: TableColumns, given: frozenset[str], where: str
) -> Matched:
    """Match the columns of a file. `given` are the names of values in its path; a column of the file goes first."""
    work = _Matching(elements, table.schema, where)
    tops = list(work.children(0))
    if len(tops) != len(arrow):
        raise InvalidInput(f"{where} has a schema that cannot be read: {len(tops)} columns, {len(arrow)} read.")
    has_ids = any(elements[at].field_id is not None for at in tops)
    by_id = table.by == "id" or (table.by in ("auto", "own") and has_ids)
    if by_id and not all(elements[at].field_id is not None for at in tops):
        raise InvalidInput(f"Columns of {where} have no field ids: match them with by='name'.")
    found = _by_id(elements, tops, table, where) if by_id else _by_name(elements, tops, table, where)
    missing, unsure = [], []
    for column in table.schema.fields:
        index = found.pop(column.field_id, None)
        if index is None:
            missing.append(column)
            continue
        work.match(column, arrow.field(tops.index(index)), index)
        if column.required and elements[index].repetition != 0:
            unsure.append(column)
    taken = {at for at in tops if work.ids[at]}
    _check_extra(elements, [at for at in tops if at not in taken], table, given, where, by_id=by_id)
    other = any(
        element.field_id is not None and number and element.field_id != number
        for element, number in zip(elements, work.ids, strict=True)
    )
    return Matched(tuple(work.ids), tuple(missing), tuple(unsure), other)


def _by_name(elements: Sequence[Element], tops: Sequence[int], table: TableColumns, where: str) -> dict[int, int]:
    index_of: dict[str, int] = {}
    for at in tops:
        if elements[at].name in index_of:
            raise InvalidInput(f"{where} has two columns with the name {elements[at].name!r}.")
        index_of[elements[at].name] = at
    return {column.field_id: index_of[column.name] for column in table.schema.fields if column.name in index_of}


def _by_id(elements: Sequence[Element], tops: Sequence[int], table: TableColumns, where: str) -> dict[int, int]:
    found: dict[int, int] = {}
    known = {column.field_id for column in table.schema.fields}
    for at in tops:
        element = elements[at]
        number = element.field_id or 0
        if number in found:
            raise InvalidInput(f"Two columns of {where} have the field id {number}.")
        if number in known:
            if table.by == "auto" and element.name not in table.names[number]:
                raise InvalidInput(
                    f"Column {element.name!r} of {where} has the field id {number}, which in the table is "
                    f"{min(table.names[number])!r}: choose ids or names with by='id' or by='name'."
                )
            found[number] = at
    return found


def _check_extra(
    elements: Sequence[Element],
    extra: Sequence[int],
    table: TableColumns,
    given: frozenset[str],
    where: str,
    *,
    by_id: bool,
) -> None:
    """Columns of the file that are not read. One with an id that the table may give out later is refused."""
    names = [elements[at].name for at in extra]
    names += sorted(given.difference(column.name for column in table.schema.fields).difference(names))
    if names and table.extra == "error":
        raise InvalidInput(
            f"{where} has the column {names[0]!r}, which the table lacks: add it to the table, or ignore such "
            f"columns with extra='ignore'."
        )
    for at in extra:
        number = elements[at].field_id
        if by_id and number is not None and number > table.last_id:
            raise InvalidInput(
                f"Column {elements[at].name!r} of {where} has the field id {number}, which the table may give to "
                "another column: add the column, or rewrite the file without field ids."
            )


@dataclass(slots=True)
class _Matching:
    """The elements of one schema, as a tree, and the ids given so far."""

    elements: Sequence[Element]
    schema: Schema
    where: str
    ids: list[int] = field(init=False)
    _ends: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.ids = [0] * len(self.elements)
        self._ends = [0] * len(self.elements)
        if not self.elements or self._measure(0, 0) != len(self.elements):
            raise InvalidInput(f"{self.where} has a damaged schema.")

    def _measure(self, at: int, depth: int) -> int:
        """Where the elements below `at` end."""
        if at >= len(self.elements) or depth > 100:  # deeper than any column may be
            raise InvalidInput(f"{self.where} has a damaged schema.")
        following = at + 1
        for _ in range(self.elements[at].children):
            following = self._measure(following, depth + 1)
        self._ends[at] = following
        return following

    def children(self, at: int) -> Iterator[int]:
        following = at + 1
        for _ in range(self.elements[at].children):
            yield following
            following = self._ends[following]

    def match(self, column: NestedField, arrow: pa.Field, at: int, *, top: bool = True) -> None:
        """Give ids to the element at `at`, which stores `column` as `arrow`, and to those inside it."""
        self.ids[at] = column.field_id
        kind, name = column.field_type, self._name(column)
        if column.required and not top and self.elements[at].repetition == 1:
            raise InvalidInput(f"{name} is required in the table and may be null in {self.where}: append its rows.")
        match kind:
            case StructType() if pt.is_struct(arrow.type):
                self._match_struct(kind, arrow.type, at, name)
            case ListType() if pt.is_list(arrow.type):
                self._match_list(kind, arrow.type, at, name)
            case MapType() if pt.is_map(arrow.type):
                self._match_map(kind, arrow.type, at, name)
            case PrimitiveType() if not pt.is_nested(arrow.type):
                self._check_type(kind, arrow.type, at, name)
            case _:
                raise self._misfit(name, arrow.type, kind)

    def _match_struct(self, kind: StructType, arrow: pa.StructType, at: int, name: str) -> None:
        inside = list(self.children(at))
        stored = [self.elements[child].name for child in inside]
        if stored != [one.name for one in kind.fields]:
            raise InvalidInput(
                f"{name} has the fields {', '.join(one.name for one in kind.fields)} in the table and "
                f"{', '.join(stored)} in {self.where}: append its rows."
            )
        for one, child, index in zip(kind.fields, arrow, inside, strict=True):
            self.match(one, child, index, top=False)

    def _match_list(self, kind: ListType, arrow: pa.ListType, at: int, name: str) -> None:
        if kind.length is not None:
            raise InvalidInput(
                f"{name} has lists of {kind.length} values, which cannot be checked in files: append the rows instead."
            )
        repeated = self._only_child(at, name)
        element, inner = self.elements[repeated], list(self.children(repeated))
        if len(inner) == 1 and not (element.name == "array" or element.name.endswith("_tuple")):
            repeated = inner[0]
        self.match(kind.element_field, arrow.value_field, repeated, top=False)

    def _match_map(self, kind: MapType, arrow: pa.MapType, at: int, name: str) -> None:
        inner = list(self.children(self._only_child(at, name)))
        if len(inner) != 2:  # a key and a value
            raise self._misfit(name, arrow, kind)
        self.match(kind.key_field, arrow.key_field, inner[0], top=False)
        self.match(kind.value_field, arrow.item_field, inner[1], top=False)

    def _only_child(self, at: int, name: str) -> int:
        inner = list(self.children(at))
        if len(inner) != 1 or self.elements[inner[0]].repetition != REPEATED:
            raise InvalidInput(f"{name} is stored in {self.where} in an unknown form: append its rows.")
        return inner[0]

    def _check_type(self, kind: PrimitiveType, arrow: pa.DataType, at: int, name: str) -> None:
        if self.elements[at].type == INT96:
            if not isinstance(kind, TimestamptzType):
                raise InvalidInput(f"{name} is an INT96 instant in {self.where}: the column must be timestamptz.")
            return
        if arrow in _UNSIGNED or pt.is_float16(arrow):
            raise self._misfit(name, arrow, kind)
        if not fits(type_from_arrow(arrow, name), kind):
            raise self._misfit(name, arrow, kind)

    def _name(self, column: NestedField) -> str:
        return f"Column {self.schema.find_column_name(column.field_id) or column.name!r}"

    def _misfit(self, name: str, arrow: pa.DataType, kind: IcebergType) -> InvalidInput:
        return InvalidInput(f"{name} is {kind} in the table and {arrow} in {self.where}, which does not fit.")


def fits(stored: IcebergType, wanted: IcebergType) -> bool:
    """Whether every value of a stored type is one of the wanted type: the same, or one that Iceberg widens to."""
    match stored, wanted:
        case (IntegerType(), LongType()) | (FloatType(), DoubleType()):
            return True
        case DecimalType(), DecimalType():
            return stored.scale == wanted.scale and stored.precision <= wanted.precision
    return stored == wanted


__all__ = ["By", "Extra", "Matched", "TableColumns", "fits", "match_columns"]
