"""Region specs: every key is in one region, the same one whether asked for alone or with others."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moulin.errors import InvalidInput, NotFound
from moulin.model.key.key import Key, with_key
from moulin.model.region_spec import PROPERTY, RegionSpec
from moulin.model.schema.schema import make_schema

SCHEMA = with_key(
    make_schema([("country", "string"), ("id", "long"), ("day", "timestamptz"), ("v", "string")]),
    ["country", "id", "day"],
)
_DAYS = st.datetimes(timezones=st.just(UTC))
KEYS = st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), st.integers(-(2**63), 2**63 - 1), _DAYS)


@pytest.mark.parametrize(
    "text", ["bucket(4, id)", "country", "country, bucket(2, id)", "day(day)", "truncate(1, country)"]
)
@given(values=st.lists(KEYS, min_size=1, max_size=20))
def test_alone_and_together_a_key_is_in_one_region(text: str, values: list[Any]) -> None:
    spec = RegionSpec.of(SCHEMA, {PROPERTY: text})
    key = Key.of(SCHEMA)
    assert key is not None
    assert spec.is_split
    found: dict[Any, Any] = {}
    rows = 0
    for region, part in spec.split(key.to_table(values)):
        rows += part.num_rows
        for value in key.values(part):
            assert found.setdefault(value, region) == region
    assert rows == len(values)
    assert all(spec.value_of(value) == found[value] for value in values)
    assert all(spec.value_of(value) == found[value] for value in values), "also when it is remembered"


def test_without_a_spec_there_is_one_region() -> None:
    spec = RegionSpec.of(SCHEMA, {})
    assert not spec.is_split
    rows = pa.table({"id": [1, 2]})
    assert list(spec.split(rows)) == [((), rows)]
    assert spec.value_of(("a", 1, None)) == ()


def test_buckets_spread_keys() -> None:
    schema = with_key(make_schema([("id", "long")]), ["id"])
    spec = RegionSpec.of(schema, {PROPERTY: "bucket(4, id)"})
    assert len({spec.value_of(number) for number in range(100)}) == 4


@pytest.mark.parametrize("text", ["v", "bucket(4, v)", "nope", "bucket(0, id)", "bucket(4, id", "sideways(id)", ","])
def test_regions_are_divided_by_key_columns(text: str) -> None:
    with pytest.raises((InvalidInput, NotFound)):
        RegionSpec.of(SCHEMA, {PROPERTY: text})


def test_an_event_table_has_no_regions() -> None:
    with pytest.raises(InvalidInput, match="primary key"):
        RegionSpec.of(make_schema([("id", "long")]), {PROPERTY: "id"})
