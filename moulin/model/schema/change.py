"""Schema changes as typed values, and their JSON. `evolution` applies them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar, get_args

from moulin.errors import Corrupt, InvalidInput
from moulin.model.names import check_column_name
from moulin.model.schema import single_value
from moulin.model.schema.defaults import coerce_default
from moulin.model.schema.documents import type_document, type_of
from moulin.model.schema.type_reader import to_type
from moulin.model.schema.values import IcebergType, StructType
from moulin.model.texts import check_text


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column, last among its siblings. `name` is a dotted path when it goes into a struct.

    Rows that lack it, old and new, read as `default`; a required column needs one. `type` may be given as text.
    """

    name: str
    type: IcebergType
    default: Any = None
    required: bool = False
    doc: str | None = None
    action: ClassVar[str] = "add-column"

    def __post_init__(self) -> None:
        check_column_name(_leaf(self.name))
        kind = to_type(self.type, f"column {self.name}")
        object.__setattr__(self, "type", kind)
        if self.default is not None:
            object.__setattr__(self, "default", coerce_default(kind, self.default, f"column {self.name}"))
        elif self.required:
            raise InvalidInput(f"Column {self.name} cannot be added as required without a default: older rows lack it.")


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Another name for a column; `new_name` is its last part alone. Its data stays."""

    name: str
    new_name: str
    action: ClassVar[str] = "rename-column"

    def __post_init__(self) -> None:
        _leaf(self.name)
        check_column_name(self.new_name)


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column no longer read. Older versions still show it."""

    name: str
    action: ClassVar[str] = "drop-column"

    def __post_init__(self) -> None:
        _leaf(self.name)


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """A wider type: int to long, float to double, decimal to more digits, date to timestamp or timestamp_ns."""

    name: str
    type: IcebergType
    action: ClassVar[str] = "widen-column"

    def __post_init__(self) -> None:
        _leaf(self.name)
        object.__setattr__(self, "type", to_type(self.type, f"column {self.name}"))


@dataclass(frozen=True, slots=True)
class CastColumn:
    """Any other type, under the same name and in the same place, with a new field id: all rows are written again.

    Only in a commit that replaces every segment. `default` is the column's default in the new type.
    """

    name: str
    type: IcebergType
    default: Any = None
    action: ClassVar[str] = "cast-column"

    def __post_init__(self) -> None:
        _leaf(self.name)
        kind = to_type(self.type, f"column {self.name}")
        object.__setattr__(self, "type", kind)
        if self.default is not None:
            object.__setattr__(self, "default", coerce_default(kind, self.default, f"column {self.name}"))


@dataclass(frozen=True, slots=True)
class FillColumn:
    """A pending column is complete: the field `number` of this type takes the place of its placeholder.

    Only in a commit after which every live segment has values of that field. `type` has the ids of inner fields.
    """

    name: str
    type: IcebergType
    number: int
    action: ClassVar[str] = "fill-column"

    def __post_init__(self) -> None:
        if "." in _leaf(self.name) or "." in self.name:
            raise InvalidInput(f"{self.name} is inside a column: only whole columns can be filled.")
        object.__setattr__(self, "type", to_type(self.type, f"column {self.name}"))


@dataclass(frozen=True, slots=True)
class ReplaceColumns:
    """Other columns in place of all, whatever their types and ids: the rows of before go with it.

    Only in a commit that leaves no segment of before. `type` is a struct with the columns and their ids: ids that the
    table has given out, or higher ones.
    """

    type: IcebergType
    name: str = "*"
    action: ClassVar[str] = "replace-columns"

    def __post_init__(self) -> None:
        if not isinstance(self.type, StructType) or not self.type.fields or self.name != "*":
            raise InvalidInput("The new columns of a table must be a struct with at least one field.")


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Another position among its siblings: first, or right `after` or `before` the sibling of that last part."""

    name: str
    first: bool = False
    after: str | None = None
    before: str | None = None
    action: ClassVar[str] = "move-column"

    def __post_init__(self) -> None:
        if self.first + (self.after is not None) + (self.before is not None) != 1:
            raise InvalidInput(f"Say where column {self.name} goes: exactly one of first, after and before.")
        if _leaf(self.name) in (self.after, self.before):
            raise InvalidInput(f"Column {self.name} cannot be moved next to itself.")


@dataclass(frozen=True, slots=True)
class SetNullable:
    """A required column that may be null from now on."""

    name: str
    action: ClassVar[str] = "set-nullable"

    def __post_init__(self) -> None:
        _leaf(self.name)


@dataclass(frozen=True, slots=True)
class SetRequired:
    """A whole column that may not be null from now on. Only in a commit whose maker saw that no live row has a null."""

    name: str
    action: ClassVar[str] = "set-required"

    def __post_init__(self) -> None:
        _leaf(self.name)


@dataclass(frozen=True, slots=True)
class SetDoc:
    """Another comment on a column; None for no comment."""

    name: str
    doc: str | None = None
    action: ClassVar[str] = "set-doc"

    def __post_init__(self) -> None:
        _leaf(self.name)
        if self.doc is not None:
            check_text(self.doc, f"comment of column {self.name}")


@dataclass(frozen=True, slots=True)
class SetDefault:
    """What rows get that are written without the column from now on; None for null. `type` is the column's own."""

    name: str
    type: IcebergType
    default: Any = None
    action: ClassVar[str] = "set-default"

    def __post_init__(self) -> None:
        _leaf(self.name)
        kind = to_type(self.type, f"column {self.name}")
        object.__setattr__(self, "type", kind)
        if self.default is not None:
            object.__setattr__(self, "default", coerce_default(kind, self.default, f"column {self.name}"))


SchemaChange = (
    AddColumn
    | RenameColumn
    | DropColumn
    | WidenColumn
    | CastColumn
    | FillColumn
    | ReplaceColumns
    | MoveColumn
    | SetNullable
    | SetRequired
    | SetDoc
    | SetDefault
)

_BY_ACTION: Mapping[str, type[SchemaChange]] = MappingProxyType({kind.action: kind for kind in get_args(SchemaChange)})


def change_to_json(change: SchemaChange) -> str:
    """The change as JSON; `change_from_json` gives back an equal one."""
    document: dict[str, Any] = {"action": change.action}
    for field in fields(change):
        value = getattr(change, field.name)
        if isinstance(value, IcebergType):
            value = type_document(value)
        elif value is not None and isinstance(change, AddColumn | CastColumn | SetDefault) and field.name == "default":
            value = single_value.to_json(change.type, value)
        if value is not None:
            document[field.name] = value
    return json.dumps(document)


def change_from_json(text: str | bytes) -> SchemaChange:
    """The change that `change_to_json` wrote."""
    try:
        document = json.loads(text)
        kind = _BY_ACTION[document.pop("action")]
        if "type" in document:
            document["type"] = type_of(document["type"])
        if document.get("default") is not None:
            document["default"] = single_value.from_json(document["type"], document["default"])
        return kind(**document)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise Corrupt(f"A stored schema change cannot be read ({str(error)[:200]}): recover the catalog.") from None


def _leaf(name: object) -> str:
    """The last part of a dotted path."""
    if not isinstance(name, str) or not all(part.strip() for part in name.split(".")):
        raise InvalidInput(f"{name!r} is not a column name, nor a dotted path to one.")
    return name.rpartition(".")[2]


__all__ = [
    "AddColumn",
    "CastColumn",
    "DropColumn",
    "FillColumn",
    "MoveColumn",
    "RenameColumn",
    "ReplaceColumns",
    "SchemaChange",
    "SetDefault",
    "SetDoc",
    "SetNullable",
    "SetRequired",
    "WidenColumn",
    "change_from_json",
    "change_to_json",
]
