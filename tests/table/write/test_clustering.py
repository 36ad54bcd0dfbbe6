"""Compactions put rows together by sharding fields: segments are ruled out by them, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moulin.lake import Lake
from moulin.model.table_settings import SHARDING, ShardingField, sharding_columns, sharding_property
from moulin.table.compact.job import commit_compaction, compact_group
from moulin.table.compact.picker import pick
from moulin.table.table import Table
from moulin.table.write.clustering import clustered
from tests.table.conftest import OpenLake

SERVICES = ["cart", "pay", "search", "ship"]
COLUMNS = [("id", "long", False), ("ts", "timestamptz"), ("service_name", "string"), ("note", "string")]
SEGMENT_BYTES = 64 << 10


@pytest.fixture
def spans(open_lake: OpenLake) -> Table:
    """Four fresh segments, each with all services in turns."""
    lake: Lake = open_lake(settings={"merge_segment_bytes": SEGMENT_BYTES})
    lake.create_database("shop")
    fields = [ShardingField("resource.service.name", 10.0), ShardingField("note", 1.0), ShardingField("other", 99.0)]
    properties = {SHARDING: sharding_property(fields)}
    table = lake.create_table("shop.spans", COLUMNS, event_time="ts", properties=properties)
    for start in range(0, 8000, 2000):
        table.append(_rows(start, 2000))
    return table


def _rows(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "ts": pa.array([1_700_000_000_000_000 + 1000 * n for n in numbers], pa.timestamp("us", tz="UTC")),
            "service_name": [SERVICES[n % 4] for n in numbers],
            "note": [f"note {n:030d}" for n in numbers],
        }
    )


def test_a_compaction_lets_scans_skip_the_segments_of_other_services(spans: Table) -> None:
    assert len(spans.scan(where="service_name = 'pay'").plan().segments) == 4
    spans.compact(everything=True)
    plan = spans.scan(where="service_name = 'pay'").plan()
    assert plan.total >= 4
    assert len(plan.segments) <= plan.total // 2
    found = spans.scan(where="service_name = 'pay'").to_arrow()
    assert sorted(found["id"].to_pylist()) == list(range(1, 8000, 4))
    assert sorted(spans.scan().to_arrow()["id"].to_pylist()) == list(range(8000))


def test_each_segment_of_a_clustered_compaction_keeps_the_sort_order(spans: Table) -> None:
    spans.compact(everything=True)
    catalog, store = spans._context.catalog, spans._context.store
    for segment in catalog.segments(spans.id, spans.version):
        times = pq.read_table(store.reader(segment.facts.path), columns=["ts"])["ts"].to_pylist()
        assert times == sorted(times)


def test_deletes_that_land_while_a_clustered_compaction_runs_are_carried_over(spans: Table) -> None:
    spans.delete_where("id < 10")
    context, state = spans._context, spans.state()
    segments = context.catalog.segments(state.id, state.version)
    (group,) = pick(segments, context.config, segment_bytes=SEGMENT_BYTES, everything=True)
    change = compact_group(context, state, group, SEGMENT_BYTES)
    assert len(change.added) >= 4
    spans.delete_where("id >= 7000 or id = 100")
    commit_compaction(context, change)
    assert sorted(spans.scan().to_arrow()["id"].to_pylist()) == [n for n in range(10, 7000) if n != 100]


@given(
    st.lists(st.tuples(st.sampled_from([None, *SERVICES]), st.integers(0, 3)), min_size=2, max_size=60),
    st.integers(2, 6),
    st.randoms(use_true_random=False),
)
def test_clustered_rows_are_all_rows_in_order_within_each_output(
    values: list[tuple[str | None, int]], parts: int, random: np.random.Generator
) -> None:
    table = pa.table({"service": [one for one, _ in values], "kind": [two for _, two in values]})
    order = np.asarray(random.sample(range(len(values)), len(values)))  # type: ignore[attr-defined]
    step = -(-len(values) // parts)
    bounds = [(start, min(start + step, len(values))) for start in range(0, len(values), step)]
    found = clustered(table, order, bounds, ["service", "kind"])
    assert found is not None
    assert sorted(found.tolist()) == list(range(len(values)))
    rank = {int(row): place for place, row in enumerate(order)}
    highest = ("", -1)
    for start, stop in bounds:
        rows = found[start:stop].tolist()
        if len(bounds) > 1:
            assert [rank[row] for row in rows] == sorted(rank[row] for row in rows)
            keys = [(values[row][0] or "", values[row][1]) for row in rows]
            assert min(keys) >= highest
            highest = max(keys)


def test_weights_order_the_columns_and_unknown_fields_count_for_nothing() -> None:
    fields = [
        ShardingField("a", 1.0),
        ShardingField("metric_name", 10.0),
        ShardingField("x", 5.0),
        ShardingField("b", 0),
    ]
    properties = {SHARDING: sharding_property(fields)}
    assert sharding_columns(properties, ["a", "b", "name"]) == ("name", "a")
    assert sharding_columns({}, ["a"]) == ()
