"""Sort orders read from text. `sort_rows` applies them to rows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from moulin.errors import InvalidInput
from moulin.model.layout.partition import split_call
from moulin.model.layout.partition_spec import IdentityTransform, Transform
from moulin.model.layout.sort_order import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from moulin.model.schema.schema import column_path, find_column
from moulin.model.schema.values import PrimitiveType, Schema

_FIELD = re.compile(r"\s*(\S.*?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*", re.IGNORECASE)


def parse_sort(fields: Sequence[str], schema: Schema, *, order_id: int = 1) -> SortOrder:
    """The sort order that `fields` describe, such as ["bucket(16, id)", "region", "ts desc nulls last"].

    Ascending with nulls first, or descending with nulls last, unless said otherwise. No fields: unsorted, order 0.
    """
    if isinstance(fields, str):
        raise InvalidInput(f"A sort order must be a list of columns: use [{fields!r}].")
    parsed = [_parse_field(text, schema) for text in fields]
    if not parsed:
        return UNSORTED_SORT_ORDER
    seen: set[tuple[int, Transform]] = set()
    for field in parsed:
        if (field.source_id, field.transform) in seen:
            raise InvalidInput(f"The sort order names column {schema.find_column_name(field.source_id)} twice.")
        seen.add((field.source_id, field.transform))
    return SortOrder(*parsed, order_id=order_id)


def _parse_field(text: object, schema: Schema) -> SortField:
    if not isinstance(text, str) or (found := _FIELD.fullmatch(text)) is None:
        raise InvalidInput(f'A sort field must be text such as "ts" or "ts desc nulls last", not {text!r}.')
    name, direction, nulls = found[1], (found[2] or "asc").lower(), (found[3] or "").lower()
    transform: Transform = IdentityTransform()
    if text in schema.column_names:  # a column may be named "a desc"
        name, direction, nulls = text, "asc", ""
    else:
        name, transform = split_call(name, schema)
    column = find_column(schema, name)
    if not isinstance(column.field_type, PrimitiveType) or column_path(schema, column.field_id) is None:
        raise InvalidInput(
            f"Rows cannot be sorted by {name}: its type is {column.field_type}, or it lies in a list or map."
        )
    if not transform.can_transform(column.field_type):
        raise InvalidInput(f"Rows cannot be sorted by {text!r}: column {name} is of type {column.field_type}.")
    first = nulls == "first" if nulls else direction == "asc"
    return SortField(
        column.field_id,
        transform,
        SortDirection(direction),
        NullOrder.NULLS_FIRST if first else NullOrder.NULLS_LAST,
    )


__all__ = ["parse_sort"]
