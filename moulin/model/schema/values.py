"""Types, fields and schemas as plain values, with the names that Iceberg's specification gives them.

Values are immutable and hashable. They import nothing heavy, so that opening a lake is quick. `documents` holds their
JSON, `single_value` the bytes and JSON of one value of a type.
"""

# Decisions: docs/decisions/0207

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

Metadata = tuple[tuple[bytes, bytes], ...]
"""Keys and values that Arrow keeps with a field or a schema; here UTF-8 throughout."""


class IcebergType:
    """The type of a column, or of something nested in one. `str` spells it as the specification does."""

    __slots__ = ()

    @property
    def is_primitive(self) -> bool:
        return isinstance(self, PrimitiveType)


class PrimitiveType(IcebergType):
    """A type without fields inside. Those without parameters, which have a `name` alone, are no dataclasses: importing
    this module is on the path of every command.
    """

    __slots__ = ()
    name: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class BooleanType(PrimitiveType):
    __slots__ = ()
    name: ClassVar[str] = "boolean"


class IntegerType(PrimitiveType):
    """A signed number of 32 bits."""

    __slots__ = ()
    name: ClassVar[str] = "int"


class LongType(PrimitiveType):
    """A signed number of 64 bits."""

    __slots__ = ()
    name: ClassVar[str] = "long"


class FloatType(PrimitiveType):
    __slots__ = ()
    name: ClassVar[str] = "float"


class DoubleType(PrimitiveType):
    __slots__ = ()
    name: ClassVar[str] = "double"


@dataclass(frozen=True, slots=True)
class DecimalType(PrimitiveType):
    """A number of `precision` digits, `scale` of them after the point. ValueError for a precision over 38."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= 38:
            raise ValueError(f"The precision of a decimal is 1 to 38, not {self.precision}.")

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


class DateType(PrimitiveType):
    __slots__ = ()
    name: ClassVar[str] = "date"


class TimeType(PrimitiveType):
    """A time of day in microseconds."""

    __slots__ = ()
    name: ClassVar[str] = "time"


class TimestampType(PrimitiveType):
    """Microseconds, without a zone."""

    __slots__ = ()
    name: ClassVar[str] = "timestamp"


class TimestamptzType(PrimitiveType):
    """Microseconds in UTC."""

    __slots__ = ()
    name: ClassVar[str] = "timestamptz"


class TimestampNanoType(PrimitiveType):
    """Nanoseconds, without a zone."""

    __slots__ = ()
    name: ClassVar[str] = "timestamp_ns"


class TimestamptzNanoType(PrimitiveType):
    """Nanoseconds in UTC."""

    __slots__ = ()
    name: ClassVar[str] = "timestamptz_ns"


class StringType(PrimitiveType):
    __slots__ = ()
    name: ClassVar[str] = "string"


class UUIDType(PrimitiveType):
    __slots__ = ()
    name: ClassVar[str] = "uuid"


@dataclass(frozen=True, slots=True)
class FixedType(PrimitiveType):
    """Bytes, `length` of them in every value; `len` gives that, too."""

    length: int

    def __len__(self) -> int:
        return self.length

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


class BinaryType(PrimitiveType):
    __slots__ = ()
    name: ClassVar[str] = "binary"


class UnknownType(PrimitiveType):
    """The type of a partition value whose source column was dropped."""

    __slots__ = ()
    name: ClassVar[str] = "unknown"


@dataclass(frozen=True, slots=True)
class GeoType(PrimitiveType):
    """A geometry or geography of a foreign schema, as `text` spells it. Tables cannot store it."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class NestedField:
    """A column, a field of a struct, or what is inside a list or map.

    Defaults have the form in which `single_value.from_json` returns them. `metadata` is what Arrow said of the field;
    it is given back to Arrow, and no part of what makes two fields equal.
    """

    field_id: int
    name: str
    field_type: IcebergType
    required: bool = False
    doc: str | None = None
    initial_default: Any = None
    write_default: Any = None
    metadata: Metadata = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        need = "required" if self.required else "optional"
        doc = f" ({self.doc})" if self.doc else ""
        return f"{self.field_id}: {self.name}: {need} {self.field_type}{doc}"


@dataclass(frozen=True, slots=True, init=False)
class StructType(IcebergType):
    fields: tuple[NestedField, ...]

    def __init__(self, *fields: NestedField) -> None:
        object.__setattr__(self, "fields", fields)

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.fields))}>"


@dataclass(frozen=True, slots=True)
class ListType(IcebergType):
    """A list. Of `length` elements each, if it has one, which Iceberg knows nothing of: such lists equal others."""

    element_id: int
    element_type: IcebergType
    element_required: bool = True
    length: int | None = field(default=None, compare=False)

    @property
    def element_field(self) -> NestedField:
        return NestedField(self.element_id, "element", self.element_type, self.element_required)

    def __str__(self) -> str:
        return f"list<{self.element_type}>"


@dataclass(frozen=True, slots=True)
class MapType(IcebergType):
    key_id: int
    key_type: IcebergType
    value_id: int
    value_type: IcebergType
    value_required: bool = True

    @property
    def key_field(self) -> NestedField:
        return NestedField(self.key_id, "key", self.key_type, True)

    @property
    def value_field(self) -> NestedField:
        return NestedField(self.value_id, "value", self.value_type, self.value_required)

    def __str__(self) -> str:
        return f"map<{self.key_type}, {self.value_type}>"


@dataclass(frozen=True, slots=True, init=False)
class Schema:
    """The columns of a table. The fields of `identifier_field_ids`, in their order, are its key.

    Two schemas are equal when their columns and keys are, whatever their ids. ValueError for a name that two fields
    have, and for a key of fields that cannot be one.
    """

    fields: tuple[NestedField, ...]
    schema_id: int = field(compare=False)
    identifier_field_ids: tuple[int, ...]
    metadata: Metadata = field(compare=False, repr=False)
    _by_name: dict[str, int] = field(compare=False, repr=False)
    _by_id: dict[int, NestedField] = field(compare=False, repr=False)
    _names: dict[int, str] = field(compare=False, repr=False)

    def __init__(
        self,
        *fields: NestedField,
        schema_id: int = 0,
        identifier_field_ids: Collection[int] = (),
        metadata: Metadata = (),
    ) -> None:
        put = object.__setattr__
        put(self, "metadata", metadata)
        put(self, "fields", fields)
        put(self, "schema_id", schema_id)
        put(self, "identifier_field_ids", tuple(identifier_field_ids))
        put(self, "_by_id", {})
        full: dict[str, int] = {}
        short: dict[str, int] = {}
        for path, spoken, found in _walk(fields, "", ""):
            if path in full:
                raise ValueError(f"The fields {full[path]} and {found.field_id} have the same name: {path}.")
            full[path] = short[spoken] = found.field_id
            self._by_id[found.field_id] = found
        put(self, "_names", {number: path for path, number in full.items()})
        put(self, "_by_name", {**short, **full})
        _check_key(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.fields, self.schema_id, self.identifier_field_ids, self.metadata)

    def __str__(self) -> str:
        return "table {\n" + "\n".join(f"  {column}" for column in self.fields) + "\n}"

    def as_struct(self) -> StructType:
        return StructType(*self.fields)

    def find_field(self, name_or_id: str | int, case_sensitive: bool = True) -> NestedField:
        """The field of an id or a dotted path; a struct in a list or map may be named by that alone. Or ValueError."""
        if isinstance(name_or_id, int):
            found = self._by_id.get(name_or_id)
        else:
            names = self._by_name
            if not case_sensitive:
                names, name_or_id = {name.lower(): number for name, number in names.items()}, name_or_id.lower()
            number = names.get(name_or_id)
            found = None if number is None else self._by_id[number]
        if found is None:
            raise ValueError(f"The schema has no field {name_or_id!r}.")
        return found

    def find_type(self, name_or_id: str | int, case_sensitive: bool = True) -> IcebergType:
        return self.find_field(name_or_id, case_sensitive).field_type

    def find_column_name(self, field_id: int) -> str | None:
        """The dotted path of a field, or None."""
        return self._names.get(field_id)

    @property
    def column_names(self) -> list[str]:
        """The dotted paths of all fields, nested ones before those that they lie in."""
        return list(self._names.values())

    @property
    def field_ids(self) -> set[int]:
        return set(self._by_id)

    @property
    def highest_field_id(self) -> int:
        return max(self._by_id, default=0)


def inner_fields(kind: IcebergType) -> tuple[NestedField, ...]:
    """The fields right inside a type: those of a struct, the element of a list, the key and value of a map."""
    match kind:
        case StructType():
            return kind.fields
        case ListType():
            return (kind.element_field,)
        case MapType():
            return (kind.key_field, kind.value_field)
    return ()


def _walk(fields: tuple[NestedField, ...], path: str, spoken: str) -> Iterator[tuple[str, str, NestedField]]:
    """Each field with its full path and with its short one, which omits `element` and `value` before a struct's field.

    What a field of a struct holds comes before the field itself; of a list or map, all that is inside comes first.
    """
    for inner in fields:
        yield from _walk_inside(inner.field_type, f"{path}{inner.name}.", f"{spoken}{inner.name}.")
        yield f"{path}{inner.name}", f"{spoken}{inner.name}", inner


def _walk_inside(kind: IcebergType, path: str, spoken: str) -> Iterator[tuple[str, str, NestedField]]:
    fields = inner_fields(kind)
    if isinstance(kind, StructType):
        yield from _walk(fields, path, spoken)
        return
    for inner in fields:
        silent = isinstance(inner.field_type, StructType) and inner.name != "key"
        yield from _walk_inside(
            inner.field_type, f"{path}{inner.name}.", spoken if silent else f"{spoken}{inner.name}."
        )
    for inner in fields:
        yield f"{path}{inner.name}", f"{spoken}{inner.name}", inner


def _check_key(schema: Schema) -> None:
    """ValueError unless the key's fields are required, neither nested types nor floats, and in required structs."""
    for number in schema.identifier_field_ids:
        found = schema.find_field(number)
        if not isinstance(found.field_type, PrimitiveType) or isinstance(found.field_type, FloatType | DoubleType):
            raise ValueError(f"Field {found.name} of type {found.field_type} cannot be part of a key.")
        if not _is_required(schema.fields, number):
            raise ValueError(f"Field {found.name} cannot be part of a key: it is optional, or inside of a list or map.")


def _is_required(fields: tuple[NestedField, ...], number: int) -> bool:
    """Whether a field and the structs around it are required; not, if it lies in a list or map."""
    return any(
        column.required
        and (
            column.field_id == number
            or (isinstance(column.field_type, StructType) and _is_required(column.field_type.fields, number))
        )
        for column in fields
    )


def _rebuilt(fields: tuple[NestedField, ...], schema_id: int, key: tuple[int, ...], metadata: Metadata = ()) -> Schema:
    return Schema(*fields, schema_id=schema_id, identifier_field_ids=key, metadata=metadata)
