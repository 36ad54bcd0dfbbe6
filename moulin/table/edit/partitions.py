"""Replaces the partitions that contain the new rows."""

from __future__ import annotations

from collections.abc import Callable

from moulin.errors import FailedPrecondition
from moulin.model.entities import TableState
from moulin.model.operations import Kind
from moulin.table.commit.change import DataChange
from moulin.table.commit.retry import retry
from moulin.table.context import Context
from moulin.table.write.writes import Outcome, prepare_append


def overwrite_partitions(context: Context, newest: Callable[[], TableState], data: object) -> Outcome:
    """Write rows, and remove what their partitions held before. Files of an older partitioning are refused."""
    state = newest()
    if not state.spec.fields:
        raise FailedPrecondition(f"Table {state.full_name} is not partitioned: use overwrite.")
    added = prepare_append(context, state, data).added
    wanted = {facts.partition for facts in added}

    def run() -> Outcome:
        now = newest()
        if not added:
            return Outcome(now.head_version)
        live = context.catalog.segments(now.id, now.version, with_columns=False)
        if now.spec.spec_id != state.spec.spec_id or any(s.facts.spec_id != state.spec.spec_id for s in live):
            raise FailedPrecondition(
                f"Table {now.full_name} has files of an older partitioning: run table.compact(everything=True) first, "
                "or overwrite with a condition."
            )
        gone = [segment for segment in live if segment.facts.partition in wanted]
        whole = {segment.facts.number: segment.vector.id if segment.vector else 0 for segment in gone}
        change = DataChange(now.id, now.version, Kind.OVERWRITE, tuple(added), whole=whole)
        version = context.committer.commit([change]).version
        return Outcome(version, sum(facts.rows for facts in added), sum(segment.live_rows for segment in gone))

    return retry(context.config.commit_attempts, run)
