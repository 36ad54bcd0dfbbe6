"""The live tail: records that collectors store from a point in time on, each once, even while they are committed.

A tail remembers the last number of each stream. Rows that are appended without a collector are found by searches but
not by tails.
"""

# Decisions: docs/decisions/0568

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

import pyarrow as pa

from moulin.console.logs.question import Question
from moulin.console.logs.records import COLUMNS, Record, records_of
from moulin.console.telemetry import Telemetry, TelemetryTable, nanos
from moulin.model.otel import EVENT_TIME, NANOS
from moulin.model.predicate import Predicate

MOST_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class News:
    """The newest records that came, newest first; `left_out` others came, and `lost` says that some were gone."""

    records: list[Record]
    left_out: int
    lost: bool


class Tail:
    """Follows one table with a question, whose range does not count. One thread at a time."""

    def __init__(
        self,
        telemetry: Telemetry,
        table: TelemetryTable,
        question: Question,
        seen: Mapping[UUID, int] | None = None,
    ) -> None:
        """With `seen`, the tail goes on where another one was."""
        self._telemetry, self._table = telemetry, table
        self._question = replace(question, start=None, end=None)
        self._asked: Predicate | None = None
        self._of: int | None = None
        self._question.of(telemetry.moment(table, fresh=False))  # says at once what does not fit
        self.seen: Mapping[UUID, int] = telemetry.arrivals(table, None).offsets if seen is None else seen

    def look(self) -> News:
        """What came since the last look."""
        arrivals = self._telemetry.arrivals(self._table, self.seen)
        self.seen = arrivals.offsets
        if arrivals.is_empty:
            return News([], 0, arrivals.lost)
        schema = arrivals.schema
        if self._asked is None or self._of != schema.schema_id:
            moment = self._telemetry.moment(self._table, fresh=False)
            self._asked, self._of = self._question.of(moment), schema.schema_id
        exact = EVENT_TIME + NANOS
        names = [*COLUMNS, EVENT_TIME, *(field.name for field in schema.fields if field.name == exact)]
        held: list[pa.Table] = []
        came = 0
        for rows in arrivals.rows(self._asked, names):
            came += rows.num_rows
            held = [_newest(pa.concat_tables([*held, rows]))]
        records = records_of(held[0]) if held else []
        return News(records, came - len(records), arrivals.lost or arrivals.left_out > 0)


def _newest(rows: pa.Table) -> pa.Table:
    order = (-nanos(rows)).argsort(kind="stable")[:MOST_AT_ONCE]
    return rows.take(pa.array(order))


__all__ = ["MOST_AT_ONCE", "News", "Tail"]
