"""Sort orders as plain values, and their JSON. `sort` reads them from text and applies them to rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from moulin.model.layout.partition_spec import IdentityTransform, Transform, transform_of
from moulin.model.schema.documents import Document, from_stored, part, to_text


class SortDirection(Enum):
    ASC = "asc"
    DESC = "desc"


class NullOrder(Enum):
    NULLS_FIRST = "nulls-first"
    NULLS_LAST = "nulls-last"


_COLUMN = IdentityTransform()


@dataclass(frozen=True, slots=True)
class SortField:
    source_id: int
    transform: Transform = _COLUMN
    direction: SortDirection = SortDirection.ASC
    null_order: NullOrder = NullOrder.NULLS_FIRST


@dataclass(frozen=True, slots=True, init=False)
class SortOrder:
    """What the rows of a segment are sorted by; order 0 has no fields."""

    fields: tuple[SortField, ...]
    order_id: int

    def __init__(self, *fields: SortField, order_id: int = 1) -> None:
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "order_id", order_id)


UNSORTED_SORT_ORDER = SortOrder(order_id=0)


def order_document(order: SortOrder) -> Document:
    fields = [
        {
            "source-id": field.source_id,
            "transform": str(field.transform),
            "direction": field.direction.value,
            "null-order": field.null_order.value,
        }
        for field in order.fields
    ]
    return {"order-id": order.order_id, "fields": fields}


def order_of(document: Document) -> SortOrder:
    """The sort order of a document, or ValueError, TypeError or LookupError."""
    fields = [
        SortField(
            part(field, "source-id", int),
            transform_of(part(field, "transform", str, "identity")),
            SortDirection(field["direction"]),
            NullOrder(field["null-order"]),
        )
        for field in part(document, "fields", list)
    ]
    return SortOrder(*fields, order_id=part(document, "order-id", int, 1))


def sort_to_json(order: SortOrder) -> str:
    """The sort order as JSON in Iceberg's form."""
    return to_text(order_document(order))


def sort_from_json(text: str | bytes) -> SortOrder:
    """The sort order that `sort_to_json` wrote."""
    return from_stored(order_of, text, "sort order")
