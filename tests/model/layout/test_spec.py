"""Partition specs, transforms and sort orders are what pyiceberg's are, and have its text."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionSpec as TheirSpec
from pyiceberg.table.sorting import SortOrder as TheirOrder

from moulin.errors import Corrupt
from moulin.iceberg.format.pyiceberg_values import from_pyiceberg_order, from_pyiceberg_spec
from moulin.model.layout.partition_spec import (
    BucketTransform,
    PartitionSpec,
    TimeTransform,
    Transform,
    UnknownTransform,
    spec_from_json,
    spec_to_json,
    transform_of,
)
from moulin.model.layout.sort_order import SortOrder, sort_from_json, sort_to_json
from moulin.model.schema.single_value import from_bytes, to_bytes
from moulin.model.schema.types import PLAIN_TYPES
from moulin.model.schema.values import (
    DecimalType,
    FixedType,
    GeoType,
    IcebergType,
    ListType,
    LongType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
    UUIDType,
)
from tests.model.referee import their_transform, their_type
from tests.model.strategies import orders, primitive_types, specs, transforms, values

TYPES = [
    *PLAIN_TYPES.values(),
    DecimalType(9, 2),
    FixedType(3),
    UnknownType(),
    GeoType("geometry"),
    GeoType("geography"),
    ListType(1, LongType()),
]


@settings(deadline=None)
@given(specs())
def test_a_spec_has_the_text_that_pyiceberg_writes(spec: PartitionSpec) -> None:
    text = spec_to_json(spec)
    theirs = TheirSpec.model_validate_json(text)
    assert theirs.model_dump_json() == text
    assert spec_from_json(theirs.model_dump_json()) == from_pyiceberg_spec(theirs) == spec
    assert [str(field) for field in spec.fields] == [str(field) for field in theirs.fields]
    assert hash(pickle.loads(pickle.dumps(spec))) == hash(spec)


@settings(deadline=None)
@given(orders())
def test_a_sort_order_has_the_text_that_pyiceberg_writes(order: SortOrder) -> None:
    text = sort_to_json(order)
    theirs = TheirOrder.model_validate_json(text)
    assert theirs.model_dump_json() == text
    assert sort_from_json(theirs.model_dump_json()) == from_pyiceberg_order(theirs) == order
    assert hash(pickle.loads(pickle.dumps(order))) == hash(order)


@given(transforms())
def test_a_transform_applies_where_that_of_pyiceberg_does(transform: Transform) -> None:
    theirs = their_transform(transform)
    for kind in TYPES:
        assert transform.can_transform(kind) == theirs.can_transform(their_type(kind)), kind
        if transform.can_transform(kind):
            assert str(transform.result_type(kind)) == str(theirs.result_type(their_type(kind)))


@st.composite
def partition_values(draw: st.DrawFn) -> tuple[Transform, IcebergType, Any]:
    transform, source = draw(transforms()), draw(primitive_types())
    kind = transform.result_type(source)
    if isinstance(transform, TimeTransform):
        return transform, kind, draw(st.none() | st.integers(-1900, 2000))
    value = draw(st.none() | values(kind))
    return transform, kind, None if value is None else from_bytes(kind, to_bytes(kind, value))


@settings(deadline=None)
@given(partition_values())
def test_people_read_partition_values_as_pyiceberg_shows_them(made: tuple[Transform, IcebergType, Any]) -> None:
    transform, kind, value = made
    if isinstance(kind, TimestampNanoType | TimestamptzNanoType | UUIDType):
        return  # `format_partition` spells these, before it asks the transform
    assert transform.to_human_string(kind, value) == their_transform(transform).to_human_string(their_type(kind), value)


def test_a_transform_of_a_later_specification_is_kept_as_unknown() -> None:
    assert transform_of("zorder") == UnknownTransform()
    assert str(transform_of("zorder")) == str(their_transform(transform_of("zorder"))) == "unknown"
    assert not transform_of("zorder").can_transform(LongType())


@pytest.mark.parametrize("text", ["bucket", "bucket[]", "truncate(4)", "bucket[x]"])
def test_a_transform_that_lacks_its_number_is_corrupt(text: str) -> None:
    with pytest.raises(Corrupt, match="lacks its number"):
        spec_from_json(f'{{"fields": [{{"source-id": 1, "field-id": 1000, "transform": "{text}", "name": "a"}}]}}')


def test_transforms_are_values() -> None:
    assert BucketTransform(4) == BucketTransform(4) != BucketTransform(5)
    assert len({BucketTransform(4), BucketTransform(4), BucketTransform(5)}) == 2
