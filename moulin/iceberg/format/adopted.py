"""Whether Iceberg engines read an adopted file in the same way as its table.

They use the field ids of the file if it has some, else its names. A missing column is taken from the partition if that
has the column unchanged, else from the column's default.
"""

# Decisions: docs/decisions/0432

from __future__ import annotations

from moulin.errors import FailedPrecondition
from moulin.model.entities import TableState
from moulin.model.facts import AdoptedFile, SegmentFacts
from moulin.model.layout.partition_spec import IdentityTransform
from moulin.model.schema.defaults import default_value
from moulin.model.schema.values import PrimitiveType, Schema
from moulin.table.adopt.partition import constant_of


def require_readable(state: TableState, facts: SegmentFacts, adopted: AdoptedFile) -> None:
    """Reject an adopted file that engines would read differently than its table does."""
    reason = _lost_constant(state, facts, adopted) or _lost_name(state, facts, adopted)
    if adopted.other_ids:
        reason = "it has field ids of its own, which are not the table's"
    if reason is not None:
        raise FailedPrecondition(
            f"{facts.path} of {state.full_name} cannot be shown to Iceberg engines: {reason}. Compact the table with "
            "everything=True first."
        )


def _lost_constant(state: TableState, facts: SegmentFacts, adopted: AdoptedFile) -> str | None:
    fields = state.specs[facts.spec_id].fields
    kept = {field.source_id for field in fields if isinstance(field.transform, IdentityTransform)}
    for number, value in adopted.constants:
        if value is not None and number not in kept and _default(state.schema, number) != value:
            name = state.schema.find_column_name(number)
            if name is not None:
                return f"its column {name!r} is not in the file, and the table is not partitioned by it"
    return None


def _default(schema: Schema, number: int) -> bytes | None:
    if schema.find_column_name(number) is None:
        return None
    field = schema.find_field(number)
    default = default_value(field)
    if default is None or not isinstance(field.field_type, PrimitiveType):
        return None
    return constant_of(field.field_type, default)


def _lost_name(state: TableState, facts: SegmentFacts, adopted: AdoptedFile) -> str | None:
    """A name in the file that has been used for two columns: engines know only one of them."""
    then, mine = state.schemas[facts.schema_id], set(adopted.field_ids)
    for column in then.fields:
        others = {one.field_id for schema in state.schemas.values() for one in schema.fields if one.name == column.name}
        if column.field_id in mine and len(others) > 1:
            return f"its column {column.name!r} has the name that another column of the table has had"
    return None


__all__ = ["require_readable"]
