"""The event time of a table: the column used for pruning by time."""

from __future__ import annotations

from moulin.errors import InvalidInput
from moulin.model.schema.schema import find_column
from moulin.model.schema.values import (
    DateType,
    Schema,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

_TYPES = (DateType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)


def event_time_id(schema: Schema, name: str) -> int:
    """The field id of a column that can be an event time: a top-level date or timestamp."""
    field = find_column(schema, name)
    if not isinstance(field.field_type, _TYPES) or field not in schema.fields:
        raise InvalidInput(
            f"The event time must be a top-level date or timestamp column; {name!r} is {field.field_type}."
        )
    return field.field_id
