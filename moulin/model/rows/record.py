"""Fast check of single rows against a schema, one Python row at a time.

A row that fails the fast check goes to `model.rows`, which converts more and reports errors; so both paths accept the
same rows. msgspec checks the types whose values are stored as they are, `stored_values` the others.
"""

# Decisions: docs/decisions/0331

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from operator import itemgetter
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.types as pt

from moulin.model.rows.conversion import Target
from moulin.model.rows.python_values import from_python
from moulin.model.rows.shown_values import showing, with_numbers
from moulin.model.rows.stored_values import storing, written_default
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
    TimeType,
    UUIDType,
)

Record = msgspec.Struct

# Types whose Python values are stored without any change.
_TYPES: Final[dict[type[IcebergType], Any]] = {
    BooleanType: bool,
    IntegerType: Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)],
    LongType: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)],
    # Whole numbers beyond these bounds may not be exact as floats; what is larger is checked in detail.
    DoubleType: Annotated[float, msgspec.Meta(gt=-(1 << 53), lt=1 << 53)],
    StringType: str,
    BinaryType: bytes,
    DateType: date,
    TimeType: Annotated[time, msgspec.Meta(tz=False)],
    TimestampType: Annotated[datetime, msgspec.Meta(tz=False)],
    TimestamptzType: Annotated[datetime, msgspec.Meta(tz=True)],
    UUIDType: UUID,
}


# NaN, infinities and large numbers, which the bounds of a double leave to the second look.
_WIDE_TYPES: Final = {kind: checked for kind, checked in _TYPES.items() if kind is not DoubleType}
_AT_ONCE: Final = 1 << 13  # rows: a few milliseconds
_LOOK_CLOSER: Final = (msgspec.MsgspecError, TypeError, ValueError, OverflowError)
# What rows hold already, so that msgspec reads none of it from text: `model.rows` has rules of its own for that.
NATIVE: Final = (bytes, datetime, date, time, UUID, Decimal)


class RecordType:
    """Rows of one schema. A checked row is a tuple of stored values, in the order of the columns.

    `is_fast` when rows can be checked here at all, `is_simple` when msgspec alone does it.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.names = tuple(field.name for field in schema.fields)
        self.is_simple = all(type(field.field_type) in _TYPES for field in schema.fields)
        stores = [storing(field) for field in schema.fields]
        self.is_fast = all(store is not None for store in stores)
        shows = ((field.name, showing(field.field_type)) for field in schema.fields)
        self._shows = tuple((name, show) for name, show in shows if show is not None)
        self._columns = _Columns(schema)
        if self.is_fast:
            self.struct, self.finish = self._compiled(stores, _TYPES)
            self._wide = self._compiled(stores, _WIDE_TYPES)

    def _compiled(
        self, stores: Sequence[Any], types: Mapping[type[IcebergType], Any]
    ) -> tuple[type[Any], Callable[[tuple[Any, ...]], tuple[Any, ...]]]:
        """A Struct that checks values of `types`, and what makes stored values of those of the others.

        The second raises what a closer look is worth.
        """
        fields: list[Any] = [_field(index, field, types) for index, field in enumerate(self.schema.fields)]
        struct = msgspec.defstruct(
            "Row",
            fields,
            rename={f"_{index}": name for index, name in enumerate(self.names)},
            forbid_unknown_fields=True,
            gc=False,
            eq=False,
            kw_only=True,
            array_like=False,
        )
        others = [
            (index, stores[index])
            for index, field in enumerate(self.schema.fields)
            if type(field.field_type) not in types
        ]

        def finish(values: tuple[Any, ...]) -> tuple[Any, ...]:
            row = list(values)
            for index, store in others:
                row[index] = store(row[index])
            return tuple(row)

        return struct, finish

    def check(self, row: Any) -> tuple[Any, ...] | None:
        """The values of a row in the schema's order; None when it must be looked at more closely. REQUIRES: is_fast."""
        for struct, finish in ((self.struct, self.finish), self._wide):
            with suppress(*_LOOK_CLOSER):
                return finish(msgspec.structs.astuple(msgspec.convert(row, struct, builtin_types=NATIVE)))
        return None

    def check_all(self, rows: Sequence[Any]) -> list[tuple[Any, ...]] | None:
        """`check` for several rows; None when one of them must be looked at more closely. REQUIRES: is_simple."""
        try:
            records = msgspec.convert(rows, list[self.struct], builtin_types=NATIVE)  # type: ignore[name-defined]
        except _LOOK_CLOSER:
            return None
        return list(map(msgspec.structs.astuple, records))

    def to_arrow(self, rows: Sequence[tuple[Any, ...]], start: int = 0, stop: int | None = None) -> pa.Table:
        """Checked rows, from `start` on and before `stop`, as a table of the schema."""
        return self._columns.table(rows, start, len(rows) if stop is None else stop)

    def to_dict(self, row: tuple[Any, ...]) -> dict[str, Any]:
        """A checked row as readers get it."""
        shown = dict(zip(self.names, row, strict=True))
        for name, show in self._shows:
            if shown[name] is not None:
                shown[name] = show(shown[name])
        return shown


class _Columns:
    """Columns of checked rows. Arrow reads whole rows at once where it takes the values of all columns as they are."""

    def __init__(self, schema: Schema) -> None:
        self._schema, self._fields = arrow_schema(schema), schema.fields
        self._special = any(_is_special(kind) for kind in self._schema.types)
        self._row = None if self._special else pa.struct([pa.field(f.name, f.type) for f in self._schema])

    def table(self, rows: Sequence[tuple[Any, ...]], start: int, stop: int) -> pa.Table:
        # Python's lock is held for as long as Arrow looks at Python values. Each part is copied when its turn comes:
        # to look at a row that is not in the caches of the processor takes as long as to convert it.
        parts = (rows[at : min(at + _AT_ONCE, stop)] for at in range(start, stop, _AT_ONCE))
        batches = [pa.RecordBatch.from_arrays(self._arrays(part), schema=self._schema) for part in parts]
        table = pa.Table.from_batches(batches, self._schema)
        return table.combine_chunks() if len(batches) > 1 else table

    def _arrays(self, rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
        if self._row is not None:
            whole = pa.array(rows, self._row)
            return [whole.field(index) for index in range(len(self._fields))]
        return [
            _column(list(map(itemgetter(index), rows)), column.type, field)
            for index, (column, field) in enumerate(zip(self._schema, self._fields, strict=True))
        ]


def _field(index: int, field: NestedField, types: Mapping[type[IcebergType], Any]) -> tuple[Any, ...]:
    name, kind = f"_{index}", types.get(type(field.field_type))
    if kind is None:
        default = written_default(field)
        return (name, Any) if field.required and default is None else (name, Any, default)
    if field.required and field.write_default is None:
        return (name, kind)
    return (name, kind if field.required else kind | None, field.write_default)


def _is_special(kind: pa.DataType) -> bool:
    return bool(kind == pa.uuid() or pt.is_nested(kind))


def _column(values: list[Any], kind: pa.DataType, field: NestedField) -> pa.Array:
    if kind == pa.uuid():
        stored = pa.array([None if value is None else value.bytes for value in values], pa.binary(16))
        return pa.ExtensionArray.from_storage(kind, stored)
    if pt.is_nested(kind):
        found = from_python(values, Target.of(with_numbers(field)))
        return found if found.type.equals(kind) else found.cast(kind)
    return pa.array(values, kind)
