"""Planning a selective scan: one hour out of a year of a million segments."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import big_catalog
from benchmarks.harness import Bench, Contender, Line, Skipped, take_turns
from moulin import Lake
from moulin.model.facts import LiveSegment
from moulin.model.where import parse_where
from moulin.table.read.scan import plan_segments
from moulin.table.table import Table

TITLE = "plan of one hour of a year"
TARGET = 0.020
_WHERE = "ts >= timestamp '2024-07-15 10:00:00+00:00' and ts < timestamp '2024-07-15 11:00:00+00:00'"
_PLANS = 50


def run(bench: Bench) -> Iterator[Line]:
    for backend in big_catalog.BACKENDS:
        case = f"{backend}, one hour of a year, {bench.segments:,} segments"
        try:
            _, large = big_catalog.small_and_large(bench, backend)
        except Skipped as skipped:
            yield Line("plan_scale", case, reason=str(skipped), target=TARGET)
            continue
        bench.step(case)
        table = large.table(big_catalog.TABLE)
        contender = Contender(lambda lake=large, table=table: plan(lake, table))
        samples = take_turns({"plan": contender}, min(_PLANS, bench.commits), warm_up=3)
        yield Line("plan_scale", case, samples["plan"], target=TARGET)


def plan(lake: Lake, table: Table) -> list[LiveSegment]:
    """The segments of that hour: the table's state, the condition and the catalog's facts, all read anew."""
    state = table.state()
    return plan_segments(lake.catalog, state, parse_where(_WHERE, state.schema))
