"""Single rows on their way in: checked against a schema fast, one Python row at a time.

A row that the fast check does not take is judged by `model.rows`, which converts more and says what is wrong; so both
ways in accept the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from operator import itemgetter
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
import pyarrow as pa

from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    Schema,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

Record = msgspec.Struct

# Types whose Python values are stored without any change. Others go through Arrow.
_TYPES: Final[dict[type[IcebergType], Any]] = {
    BooleanType: bool,
    IntegerType: Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)],
    LongType: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)],
    # Whole numbers beyond these bounds may not be exact as floats; what is larger is looked at more closely.
    DoubleType: Annotated[float, msgspec.Meta(gt=-(1 << 53), lt=1 << 53)],
    StringType: str,
    BinaryType: bytes,
    DateType: date,
    TimestampType: Annotated[datetime, msgspec.Meta(tz=False)],
    TimestamptzType: Annotated[datetime, msgspec.Meta(tz=True)],
    UUIDType: UUID,
}


_LOOK_CLOSER: Final = (msgspec.MsgspecError, TypeError, ValueError, OverflowError)
# What rows hold already, so that msgspec reads none of it from text: `model.rows` has rules of its own for that.
NATIVE: Final = (bytes, datetime, date, UUID, Decimal)


class RecordType:
    """Rows of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.names = tuple(field.name for field in schema.fields)
        self.is_simple = all(type(field.field_type) in _TYPES for field in schema.fields)
        if self.is_simple:
            fields: list[Any] = [_field(index, field) for index, field in enumerate(schema.fields)]
            renames = {f"_{index}": name for index, name in enumerate(self.names)}
            self.struct = msgspec.defstruct(
                "Row",
                fields,
                rename=renames,
                forbid_unknown_fields=True,
                gc=False,
                eq=False,
                kw_only=True,
                array_like=False,
            )

    def check(self, row: Any) -> tuple[Any, ...] | None:
        """The values of a row in the schema's order; None when it must be looked at more closely."""
        try:
            record = msgspec.convert(row, self.struct, builtin_types=NATIVE)
        except _LOOK_CLOSER:
            return None
        return msgspec.structs.astuple(record)

    def check_all(self, rows: Sequence[Any]) -> list[tuple[Any, ...]] | None:
        """`check` for several rows; None when one of them must be looked at more closely."""
        try:
            records = msgspec.convert(rows, list[self.struct], builtin_types=NATIVE)  # type: ignore[name-defined]
        except _LOOK_CLOSER:
            return None
        return list(map(msgspec.structs.astuple, records))

    def to_arrow(self, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        """Checked rows as a table of the schema."""
        fields = arrow_schema(self.schema)
        columns = [_column(list(map(itemgetter(index), rows)), field.type) for index, field in enumerate(fields)]
        return pa.Table.from_arrays(columns, schema=fields)

    def to_dict(self, row: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(self.names, row, strict=True))


def _field(index: int, field: NestedField) -> tuple[Any, ...]:
    kind = _TYPES[type(field.field_type)]
    if field.required and field.write_default is None:
        return (f"_{index}", kind)
    return (f"_{index}", kind if field.required else kind | None, field.write_default)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind == pa.uuid():
        stored = pa.array([None if value is None else value.bytes for value in values], pa.binary(16))
        return pa.ExtensionArray.from_storage(kind, stored)
    return pa.array(values, kind)
