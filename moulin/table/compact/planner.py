"""Plans merge tasks for workers, for one table or all, on request of an operator or the janitor."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from moulin.catalog.segments.stats import Filter
from moulin.catalog.tasks.merge_tasks import PlannedTask
from moulin.errors import NotFound
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.table.compact.compaction import plan, planned
from moulin.table.compact.picker import Bounds, rewrite_each
from moulin.table.context import Context
from moulin.table.properties import effective
from moulin.table.read.quarantine import proven

_AT_ONCE = 20_000  # segments that one request plans over


@dataclass(frozen=True, slots=True)
class Planned:
    """The numbers of created tasks and of their segments."""

    tasks: int = 0
    segments: int = 0


def create_tasks(context: Context, table_id: UUID | None, wanted: Filter) -> Planned:
    """Make tasks of two or more segments each, of those that a filter lets through and no task has; all or none.

    They have about `_AT_ONCE` segments at most: who has more of them asks again, until nothing is made.
    """
    plans: list[PlannedTask] = []
    for state in _states(context, table_id):
        plans += _plan_filtered(context, state, wanted)
        if sum(len(one.inputs) for one in plans) >= _AT_ONCE:
            break
    return _create(context, plans)


def _plan_filtered(context: Context, state: TableState, wanted: Filter) -> list[PlannedTask]:
    """The first page of matching segments with anything to compact."""
    bounds = Bounds(min_inputs=2, max_inputs=context.config.merge_max_inputs)
    for page in _pages(context, state, wanted, bounds.min_inputs):
        groups = plan(context, state, bounds=bounds, segments=page)
        if plans := [planned(state.id, group) for group in groups if len(group.segments) >= 2]:
            return plans
    return []


def _pages(context: Context, state: TableState, wanted: Filter, least: int) -> Iterator[Collection[LiveSegment]]:
    """The matching segments that compactions may use, by partition and time."""
    catalog = context.own_catalog()
    segment_bytes = effective(context.config, state.properties).merge_segment_bytes
    small = None if state.schema.identifier_field_ids else segment_bytes // 2
    after = None
    while True:
        page = catalog.maintenance.compactable_segments(
            state.id, wanted, small=small, least=least, limit=_AT_ONCE, after=after
        )
        yield catalog.segments_by_number(state.id, page.numbers, state.version, with_columns=False).values()
        if (after := page.last) is None:
            return


def rewrite_tasks(context: Context, table_id: UUID | None) -> Planned:
    """Create a task for every free segment, to rewrite it alone; all or none."""
    plans = []
    for state in _states(context, table_id):
        live = proven(context.catalog, state, context.catalog.segments(state.id, state.version, with_columns=False))
        held = context.catalog.maintenance.merge_inputs_held([segment.facts.number for segment in live])
        groups = rewrite_each([s for s in live if s.facts.number not in held])
        plans += [planned(state.id, group) for group in groups]
    return _create(context, plans)


def create_due_tasks(context: Context, table_id: UUID, segments: Collection[LiveSegment] | None = None) -> Planned:
    """Make the tasks that are due by themselves: enough segments of about one size, or level 0 of a keyed table.

    Of all segments, or of `segments`. All those of an event table are looked at page by page, so that a large one
    costs time and not memory; each page is a transaction.
    """
    state = context.catalog.table_by_id(table_id)
    config = context.config
    bounds = Bounds(min_inputs=config.merge_min_inputs, max_inputs=config.merge_max_inputs, tiered=True)
    pages: Iterable[Collection[LiveSegment] | None] = [segments]
    if segments is None and not state.schema.identifier_field_ids:
        pages = _pages(context, state, Filter(), bounds.min_inputs)
    tasks = inputs = 0
    for page in pages:
        groups = plan(context, state, due_only=True, bounds=bounds, segments=page)
        made = _create(context, [planned(state.id, group) for group in groups])
        tasks, inputs = tasks + made.tasks, inputs + made.segments
    return Planned(tasks, inputs)


def _create(context: Context, plans: Sequence[PlannedTask]) -> Planned:
    claims = context.catalog.maintenance.create_merge_tasks(plans)
    made = [one for one, claim in zip(plans, claims, strict=True) if claim is not None]
    return Planned(len(made), sum(len(one.inputs) for one in made))


def _states(context: Context, table_id: UUID | None) -> Iterable[TableState]:
    if table_id is not None:
        yield context.catalog.table_by_id(table_id)
        return
    catalog = context.own_catalog()
    for database in catalog.databases():
        for entry in catalog.tables(database.id):
            try:
                yield catalog.table_by_id(entry.id)
            except NotFound:  # dropped in the meantime
                continue
