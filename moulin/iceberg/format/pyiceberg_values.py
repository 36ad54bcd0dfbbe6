"""Converts between pyiceberg's models and our values: foreign documents are read with its models.

No other module converts between the two.
"""

from __future__ import annotations

import json
from typing import Any

from pyiceberg import conversions, partitioning, schema, types
from pyiceberg.table import sorting

from moulin.model.layout.partition_spec import PartitionSpec, spec_of
from moulin.model.layout.sort_order import SortOrder, order_of
from moulin.model.schema import single_value
from moulin.model.schema.defaults import coerce_default
from moulin.model.schema.documents import plain_schema, schema_to_json
from moulin.model.schema.foreign import own_value
from moulin.model.schema.values import Schema, TimestampNanoType, TimestamptzNanoType

Json = dict[str, Any]


def read_schema(document: Json) -> Schema:
    """The schema of a document, or one of the errors of pyiceberg and pydantic."""
    return from_pyiceberg_schema(schema.Schema.model_validate(document))


def read_spec(document: Json) -> PartitionSpec:
    """The partition spec of a document, or one of the errors of pyiceberg and pydantic."""
    return from_pyiceberg_spec(partitioning.PartitionSpec.model_validate(document))


def read_order(document: Json) -> SortOrder:
    """The sort order of a document, or one of the errors of pyiceberg and pydantic."""
    return from_pyiceberg_order(sorting.SortOrder.model_validate(document))


def from_pyiceberg_schema(given: schema.Schema) -> Schema:
    made: Schema = own_value(given)
    return made


def from_pyiceberg_spec(given: partitioning.PartitionSpec) -> PartitionSpec:
    return spec_of(json.loads(given.model_dump_json()))


def from_pyiceberg_order(given: sorting.SortOrder) -> SortOrder:
    return order_of(json.loads(given.model_dump_json()))


def to_pyiceberg_schema(given: Schema) -> schema.Schema:
    return schema.Schema.model_validate_json(schema_to_json(plain_schema(given)))


# pyiceberg has no JSON form for defaults of the nanosecond types and refuses to make such a field at all; its
# conversions are open for registration, so that every schema of this process can hold them.
for _theirs, _ours in (
    (types.TimestampNanoType, TimestampNanoType()),
    (types.TimestamptzNanoType, TimestamptzNanoType()),
):
    conversions.from_json.register(_theirs, lambda _, value, kind=_ours: coerce_default(kind, value, "the field"))
    conversions.to_json.register(_theirs, lambda _, value, kind=_ours: single_value.to_json(kind, value))


__all__ = [
    "from_pyiceberg_order",
    "from_pyiceberg_schema",
    "from_pyiceberg_spec",
    "read_order",
    "read_schema",
    "read_spec",
    "to_pyiceberg_schema",
]
