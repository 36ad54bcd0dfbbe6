"""pyiceberg as the referee: its own values, equal to ours."""

from __future__ import annotations

import json
from typing import Any

from pyiceberg.partitioning import PartitionSpec as TheirSpec
from pyiceberg.schema import Schema as TheirSchema
from pyiceberg.table.sorting import SortOrder as TheirOrder
from pyiceberg.transforms import Transform as TheirTransform
from pyiceberg.transforms import parse_transform
from pyiceberg.types import IcebergType as TheirType

import moulin.iceberg.format.pyiceberg_values  # noqa: F401  so that pyiceberg takes defaults in nanoseconds
from moulin.model.layout.partition_spec import PartitionSpec, Transform, spec_to_json
from moulin.model.layout.sort_order import SortOrder, sort_to_json
from moulin.model.schema.documents import schema_to_json, type_document
from moulin.model.schema.values import IcebergType, Schema


def their_type(kind: IcebergType) -> Any:
    return TheirType.model_validate(type_document(kind))


def their_transform(transform: Transform) -> TheirTransform:
    return parse_transform(str(transform))


def their_schema(schema: Schema) -> TheirSchema:
    return TheirSchema.model_validate(json.loads(schema_to_json(schema)))


def their_spec(spec: PartitionSpec) -> TheirSpec:
    return TheirSpec.model_validate(json.loads(spec_to_json(spec)))


def their_order(order: SortOrder) -> TheirOrder:
    return TheirOrder.model_validate(json.loads(sort_to_json(order)))
