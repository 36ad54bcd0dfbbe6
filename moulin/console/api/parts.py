"""The parts of a table: segments, partitions, indexes, regions, and the engines that can read it."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter

from moulin.console.api.requests import BY_VERSION, USUAL, Console, ConsoleOf, Cursor, Limit, page_of, table_of, takes
from moulin.console.api.shapes import Int64, Page, Shape
from moulin.console.api.tables import Version
from moulin.errors import FailedPrecondition
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.layout.partition import format_partition
from moulin.network.callers import Role

router = APIRouter(tags=["tables"], dependencies=BY_VERSION)
READ = takes(Role.READ)


class SegmentShape(Shape):
    """A data file. Times are the range of its event time; `live` of its rows count."""

    number: Int64
    level: int
    rows: Int64
    live: Int64
    bytes: Int64
    time_min: Int64 | None
    time_max: Int64 | None
    partition: str
    region: int
    added_version: Int64
    path: str
    column_files: int
    inline: bool


class PartitionShape(Shape):
    """The live segments of one partition; `spec` is the partitioning that they were written with."""

    spec: int
    partition: str
    segments: int
    rows: Int64
    bytes: Int64


class IndexShape(Shape):
    """A secondary index. Segments past `covered` are read without it."""

    name: str
    column: str
    kind: str
    covered: int
    segments: int
    files: int
    bytes: Int64
    created_version: Int64


class RegionShape(Shape):
    """A part of a keyed table that one process writes; its log is in segments up to `covered`."""

    number: int
    epoch: Int64
    owner: str
    covered: Int64
    generation: Int64
    segments: int


class EngineShape(Shape):
    """Whether an Iceberg engine reads the table as it is, and why not."""

    engine: str
    version: str
    reads: bool
    reason: str | None


@router.get("/tables/{table_id}/segments", **READ)
def list_segments(
    table_id: UUID, console: ConsoleOf, version: Version = None, cursor: Cursor = None, limit: Limit = USUAL
) -> Page[SegmentShape]:
    """The live segments, by number."""
    state, live = _live(console, table_id, version)
    page, more = page_of(live, cursor, limit, lambda one: (one.facts.number,), int)
    return Page(items=[_segment(state, one) for one in page], next_cursor=more)


def _live(console: Console, table_id: UUID, version: int | None) -> tuple[TableState, list[LiveSegment]]:
    catalog = console.lake.own_catalog()
    state = catalog.table_by_id(table_id, version)
    return state, catalog.segments(state.id, state.version, with_columns=False)


def _partition(state: TableState, spec_id: int, values: tuple[bytes | None, ...]) -> str:
    return format_partition(state.specs[spec_id], state.schema, values)


def _segment(state: TableState, one: LiveSegment) -> SegmentShape:
    facts = one.facts
    return SegmentShape(
        number=facts.number,
        level=facts.level,
        rows=facts.rows,
        live=one.live_rows,
        bytes=facts.stored_size,
        time_min=facts.time_min,
        time_max=facts.time_max,
        partition=_partition(state, facts.spec_id, facts.partition),
        region=facts.region,
        added_version=one.added_version,
        path=facts.path,
        column_files=len(facts.files),
        inline=facts.inline is not None,
    )


@router.get("/tables/{table_id}/partitions", **READ)
def list_partitions(
    table_id: UUID, console: ConsoleOf, version: Version = None, cursor: Cursor = None, limit: Limit = USUAL
) -> Page[PartitionShape]:
    """The partitions that have live segments, by name."""
    state, live = _live(console, table_id, version)
    groups: dict[tuple[int, tuple[bytes | None, ...]], list[LiveSegment]] = {}
    for one in live:
        groups.setdefault((one.facts.spec_id, one.facts.partition), []).append(one)
    found = [
        PartitionShape(
            spec=spec_id,
            partition=_partition(state, spec_id, values),
            segments=len(mine),
            rows=sum(one.live_rows for one in mine),
            bytes=sum(one.facts.stored_size for one in mine),
        )
        for (spec_id, values), mine in groups.items()
    ]
    page, more = page_of(found, cursor, limit, lambda one: (one.partition, one.spec), str, int)
    return Page(items=page, next_cursor=more)


@router.get("/tables/{table_id}/indexes", **READ)
def list_indexes(table_id: UUID, console: ConsoleOf, cursor: Cursor = None, limit: Limit = USUAL) -> Page[IndexShape]:
    """The secondary indexes, by name."""
    page, more = page_of(table_of(console, table_id).indexes(), cursor, limit, lambda one: (one.name,), str)
    items = [
        IndexShape(
            name=one.name,
            column=one.column,
            kind=one.kind,
            covered=one.covered,
            segments=one.segments,
            files=one.files,
            bytes=one.bytes,
            created_version=one.created_version,
        )
        for one in page
    ]
    return Page(items=items, next_cursor=more)


@router.get("/tables/{table_id}/regions", **READ)
def list_regions(table_id: UUID, console: ConsoleOf, cursor: Cursor = None, limit: Limit = USUAL) -> Page[RegionShape]:
    """The regions of a keyed table, by number."""
    regions = table_of(console, table_id).stats().regions
    page, more = page_of(regions, cursor, limit, lambda one: (one.number,), int)
    items = [
        RegionShape(
            number=one.number,
            epoch=one.epoch,
            owner=one.owner,
            covered=one.covered,
            generation=one.generation,
            segments=one.files,
        )
        for one in page
    ]
    return Page(items=items, next_cursor=more)


@router.get("/tables/{table_id}/readers", **READ)
def list_readers(table_id: UUID, console: ConsoleOf) -> Page[EngineShape]:
    """Which Iceberg engines read the table as it is now. The table is projected for them, if it is not yet."""
    if console.readers is None:
        raise FailedPrecondition("This server has no Iceberg catalog: start it with `moulin serve`.")
    table = table_of(console, table_id)
    items = [
        EngineShape(engine=one.engine, version=one.version, reads=one.reads, reason=one.reason)
        for one in console.readers(console.lake, table.id)
    ]
    return Page(items=items)
