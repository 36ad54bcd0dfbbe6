"""What a selective plan asks of the catalog: a plan is fast for as long as it asks little."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from moulin.lake import Lake
from moulin.model.where import parse_where
from moulin.table.read.scan import plan_segments

START = datetime(2024, 7, 1, tzinfo=UTC)
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("note", pa.string())])


def test_one_time_range_takes_four_statements(lake: Lake) -> None:
    """The row of the table, its settings, the row again beside its segments, and these with all that is theirs."""
    table = lake.create_table("shop.events", SCHEMA, event_time="ts", partition_by=["day(ts)"])
    for number in range(12):  # each twice as long as the one before: a time class of its own
        first = START + timedelta(days=number)
        times = [first, first + timedelta(seconds=2**number)]
        table.append(pa.table({"id": [1, 2], "ts": times, "note": ["a", "b"]}, SCHEMA))
    asked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement != "BEGIN":
            asked.append(statement)

    engine = lake.own_catalog().pool._engine
    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        state = table.state()
        where = "ts >= timestamp '2024-07-03 00:00:00+00:00' and ts < timestamp '2024-07-05 00:00:00+00:00'"
        found = plan_segments(lake.catalog, state, parse_where(where, state.schema))
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)
    assert len(asked) == 4, asked
    assert [segment.facts.time_min for segment in found] == [
        int((START + timedelta(days=day)).timestamp()) * 10**9 for day in (2, 3)
    ]
    time_column = state.schema.find_field("ts").field_id
    assert [[column.field_id for column in segment.facts.columns] for segment in found] == [[time_column]] * 2
