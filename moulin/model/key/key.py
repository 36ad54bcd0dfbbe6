"""The primary key: which columns, and an encoding of its values whose bytes compare as the values do.

Every column is encoded on its own and the parts are joined. Fixed widths, most significant byte first, with the sign
bit turned over: boolean 1 byte; int, long, date, time and timestamps 8 bytes; decimal 16 bytes (unscaled); uuid and
fixed as they are. Text (UTF-8) and binary are as they are in the last column; in an earlier one a zero byte becomes 00
FF, and 00 00 ends the value. DO NOT CHANGE: key indexes and the bounds of segments hold these bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from moulin.errors import InvalidInput
from moulin.model.key.key_value import CHECKS, ENCODERS, VARIABLE
from moulin.model.names import did_you_mean
from moulin.model.schema.values import (
    BooleanType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    NestedField,
    PrimitiveType,
    Schema,
    UUIDType,
)

if TYPE_CHECKING:
    import pyarrow as pa


def with_key(schema: Schema, names: Sequence[str]) -> Schema:
    """`schema` with these columns as its key: required, in this order."""
    if isinstance(names, str):
        raise InvalidInput(f"primary_key must be a list of columns: use [{names!r}].")
    fields = {field.name: field for field in schema.fields}
    for name in names:
        if name not in fields:
            raise InvalidInput(f"The key column {name!r} is not in the schema.{did_you_mean(str(name), fields)}")
        kind = fields[name].field_type
        if isinstance(kind, FloatType | DoubleType):
            raise InvalidInput(
                f"Column {name} is of type {kind}, which cannot be a key: equal floats may differ in bits."
            )
        if not isinstance(kind, PrimitiveType) or type(kind) not in ENCODERS:
            raise InvalidInput(f"Column {name} is of type {kind}, which cannot be a key: use a simple type.")
    if len(set(names)) != len(names):
        raise InvalidInput("primary_key names a column twice.")
    key = [fields[name].field_id for name in names]
    required = [replace(f, required=True) if f.name in names else f for f in schema.fields]
    return Schema(*required, schema_id=schema.schema_id, identifier_field_ids=key, metadata=schema.metadata)


@dataclass(frozen=True)
class Key:
    """The key of a table. A key value in Python is the bare value when there is one column, else a tuple."""

    fields: tuple[NestedField, ...]

    @classmethod
    def of(cls, schema: Schema) -> Key | None:
        """The key of a table with this schema; None for an event table."""
        ids = schema.identifier_field_ids
        return cls(tuple(schema.find_field(field_id) for field_id in ids)) if ids else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @cached_property
    def field_ids(self) -> tuple[int, ...]:
        return tuple(field.field_id for field in self.fields)

    @cached_property
    def width(self) -> int | None:
        """Bytes of an encoded key, when all have the same number."""
        widths = [_width(field.field_type) for field in self.fields]
        return None if None in widths else sum(width or 0 for width in widths)

    @cached_property
    def _checks(self) -> tuple[Callable[[Any, str], Any], ...]:
        return tuple(CHECKS[type(field.field_type)](field.field_type) for field in self.fields)

    @cached_property
    def _encoders(self) -> tuple[Callable[[Any], bytes], ...]:
        return tuple(ENCODERS[type(field.field_type)] for field in self.fields)

    def check(self, value: Any) -> Any:
        """The key value in its one form; InvalidInput when it does not fit."""
        if len(self.fields) == 1:
            if isinstance(value, tuple) and len(value) == 1:
                value = value[0]
            return self._checks[0](value, self.names[0])
        if isinstance(value, Mapping):
            value = tuple(value.get(name) for name in self.names)
        if not isinstance(value, tuple | list) or len(value) != len(self.fields):
            raise InvalidInput(f"A key of this table is a tuple of {', '.join(self.names)}, not {value!r}.")
        return tuple(check(part, name) for check, part, name in zip(self._checks, value, self.names, strict=True))

    def encode_one(self, value: Any) -> bytes:
        """The bytes of a key value that `check` gave."""
        if len(self.fields) == 1:
            return self._encoders[0](value)
        return self._join(value)

    def encode_prefix(self, value: Any) -> bytes:
        """The bytes that begin every key whose first columns have these values: a whole key, or fewer columns."""
        parts = value if isinstance(value, tuple | list) else (value,)
        if not 0 < len(parts) <= len(self.fields):
            raise InvalidInput(
                f"A key of this table has {len(self.fields)} columns ({', '.join(self.names)}), not {value!r}."
            )
        return self._join([check(p, n) for check, p, n in zip(self._checks, parts, self.names, strict=False)])

    def _join(self, parts: Sequence[Any]) -> bytes:
        last = len(self.fields) - 1
        encoded = []
        for index, (encode, part) in enumerate(zip(self._encoders, parts, strict=False)):
            data = encode(part)
            if index < last and isinstance(self.fields[index].field_type, VARIABLE):
                data = data.replace(b"\0", b"\0\xff") + b"\0\0"
            encoded.append(data)
        return b"".join(encoded)

    def values(self, rows: pa.Table | pa.RecordBatch) -> list[Any]:
        """The key values of rows, as `check` gives them."""
        from moulin.model.key.key_rows import key_values

        return key_values(self.fields, rows)

    def encode(self, rows: pa.Table | pa.RecordBatch) -> pa.Array:
        """The encoded keys of rows: fixed-size binary when `width` is known, else binary."""
        from moulin.model.key.key_rows import encode_keys

        return encode_keys(self.fields, self.width, rows)

    def to_table(self, values: Sequence[Any]) -> pa.Table:
        """Key values, as `check` gives them, as rows of the key's columns."""
        from moulin.model.key.key_rows import key_table

        return key_table(self.fields, values)


def successor(prefix: bytes) -> bytes | None:
    """The smallest bytes greater than everything that begins with `prefix`; None when there are none."""
    stripped = prefix.rstrip(b"\xff")
    return None if not stripped else stripped[:-1] + bytes([stripped[-1] + 1])


def _width(kind: IcebergType) -> int | None:
    if isinstance(kind, VARIABLE):
        return None
    if isinstance(kind, FixedType):
        return len(kind)
    return 1 if isinstance(kind, BooleanType) else 16 if isinstance(kind, DecimalType | UUIDType) else 8
