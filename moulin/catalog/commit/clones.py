"""Clones: tables that start with the rows of another table at one version, without copying files."""

# Decisions: docs/decisions/0410

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import databases, tables
from moulin.catalog.objects.births import add_births, add_steps, own_births
from moulin.catalog.objects.history import own_sequences, packed_rows
from moulin.catalog.objects.names import NameOrId, require_free_name
from moulin.catalog.segments import bases
from moulin.catalog.segments import live as segments
from moulin.catalog.segments.sql_rows import CARRIED, Partition, partition_ids, select_spans, span_row
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import Draft, add_rows
from moulin.catalog.sql.pool import chunks
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.model.branch_ids import last_column_id_on_branch
from moulin.model.entities import TableState
from moulin.model.filling import computed_marks
from moulin.model.ids import new_id, new_snapshot_id
from moulin.model.names import check_new_name, full_name
from moulin.model.tags import shown, trust_marks

CLONE = "clone"


def clone(
    draft: Draft,
    source_id: UUID,
    database: NameOrId,
    name: str,
    version: int | None = None,
    *,
    table_id: UUID | None = None,
    created_at: int | None = None,
    on_branch: bool = False,
) -> TableState:
    """Create a table with the rows, columns and settings of another table at `version`, by default now.

    Row ids, sequence numbers and row versions are those of the source; tags are not cloned. With `table_id`, the id of
    the clone, the source may have been dropped since. `created_at` is the time from which the clone has these rows, by
    default now. With `on_branch`, new columns get ids that main does not use. The cost depends only on the settings of
    the source, not on its segments and commits.
    """
    if table_id is None:
        check_new_name(name, "table")
    connection = draft.connection
    row = tables.find_by_id(connection, source_id, dropped_after=None if table_id is None else -1)
    at = row.lake_version if version is None else version
    state = tables.load(connection, row, version)
    parent = databases.find_parent(connection, database)
    require_free_name(connection, parent, name)
    table_id, base = table_id or new_id(), _base(row, at)
    counts, last_id = sums(connection, row, at), state.last_column_id
    connection.execute(
        s.tables.insert().values(
            id=table_id,
            database_id=parent.id,
            name=name,
            created_at=draft.now if created_at is None else created_at,
            created_version=draft.version,
            head_version=draft.version,
            oldest_version=draft.version,
            schema_id=state.schema_id,
            spec_id=state.spec_id,
            sort_order_id=state.sort_order_id,
            event_time=state.event_time,
            last_column_id=last_column_id_on_branch(table_id, last_id) if on_branch else last_id,
            last_partition_id=state.last_partition_id,
            last_sequence=state.last_sequence,
            next_row_id=state.next_row_id,
            properties={
                **shown(state.properties),
                **computed_marks(state.properties),
                **trust_marks(state.properties),
            },
            time_classes=row.time_classes,
            deltas=0,
            base_id=base.table_id,
            base_version=base.version,
            **counts,
        )
    )
    for source in tables.SETTINGS.values():
        for setting_id, text in connection.execute(
            sa.select(source.c[1], source.c.json).where(source.c.table_id == source_id).order_by(source.c[1])
        ).all():
            tables.store_setting(draft, source, table_id, setting_id, text)
    _copy_regions(draft, source_id, table_id)
    made = connection.execute(sa.select(s.tables).where(s.tables.c.id == table_id)).one()
    if base.table_id != source_id:
        _copy_own(draft, source_id, table_id, at)
        _copy_sequences(draft, source_id, table_id, state.last_sequence)
        _copy_births(draft, source_id, table_id, at)
    summary = {"cloned-table": full_name(row.database, row.name), "cloned-version": str(at)}
    snapshot_id = new_snapshot_id()
    tables.record_commit(
        draft,
        made,
        0,
        CLONE,
        snapshot_id,
        made.next_row_id,
        0,
        summary,
        properties_changed=True,
        timestamp_ns=made.created_at,
    )
    add_rows(draft, s.tables, [table_id])
    tables.fill_state(draft.table(table_id), made)
    draft.reroute()
    return tables.made(draft, table_id)


def _base(row: Any, version: int) -> bases.Level:
    """A clone of a clone has the base of the first clone."""
    return bases.levels(row, version)[-1]


def sums(connection: sa.Connection, row: Any, version: int) -> dict[str, int]:
    """Segments, rows, bytes and inline segments at a version; at the newest they are known."""
    names = ("segments", "rows", "bytes", "inline")
    if version >= row.head_version:
        return {name: getattr(row, name) for name in names}
    found = dict.fromkeys(names, 0)
    for level in bases.levels(row, version):
        p = select_spans().where(*bases.in_level(s.segment_spans, level)).subquery()
        inline = sa.func.sum(sa.case((p.c.inline.is_(True), 1), else_=0))
        live = sa.func.sum(p.c.rows - p.c.deleted)
        query = sa.select(sa.func.count(), live, sa.func.sum(p.c.size), inline)
        for name, number in zip(names, connection.execute(query).one(), strict=True):
            found[name] += int(number or 0)
    return found


def _copy_regions(draft: Draft, source_id: UUID, table_id: UUID) -> None:
    """Segments contain their region numbers; the regions of the clone have their own, empty logs."""
    r = s.regions
    for row in draft.connection.execute(sa.select(r).where(r.c.table_id == source_id).order_by(r.c.number)).all():
        new = {"table_id": table_id, "number": row.number, "value": row.value, "owner": ""}
        draft.connection.execute(r.insert().values(**new, epoch=0, covered=0, generation=1))
        draft.table(table_id).regions.append(pb.Region(number=row.number, value=row.value, generation=1))


def _copy_sequences(draft: Draft, source_id: UUID, table_id: UUID, last: int) -> None:
    """The versions in which the source assigned sequence numbers, which give the last change of rows."""
    given = own_sequences(draft.connection, source_id)
    pairs = [(number, given[number]) for number in sorted(given) if 0 < number <= last]
    draft.table(table_id).sequence_versions.update(pairs)
    for row in packed_rows(table_id, pairs):
        draft.connection.execute(s.table_commits.insert(), row)


def _copy_births(draft: Draft, source_id: UUID, table_id: UUID, version: int) -> None:
    """The versions of the source that created rows."""
    given = {first: made for first, made in own_births(draft.connection, source_id).items() if made <= version}
    add_births(draft.table(table_id), given)
    add_steps(draft.connection, table_id, given)


def _copy_partitions(
    connection: sa.Connection, source_id: UUID, table_id: UUID, numbers: Collection[int]
) -> dict[int, int]:
    """Copies of the partitions of a table for its clone, by those of the table, because filters use both."""
    t = s.partitions
    found: dict[int, Partition] = {}
    for chunk in chunks(sorted(numbers)):
        query = sa.select(t.c.id, t.c.spec_id, t.c.tuple).where(t.c.id.in_(chunk), t.c.table_id == source_id)
        found.update({row[0]: (row[1], segments.decode_partition(row[2])) for row in connection.execute(query)})
    made = partition_ids(connection, table_id, set(found.values())) if found else {}
    return {number: made[partition] for number, partition in found.items()}


def _copy_own(draft: Draft, source_id: UUID, table_id: UUID, version: int) -> None:
    """The own spans and masks of a clone at a version, for a clone of it."""
    connection, m, p = draft.connection, s.span_masks, s.segment_spans
    masked = sa.select(m.c.segment).where(m.c.table_id == source_id, m.c.added_version <= version)
    numbers = connection.execute(masked.order_by(m.c.segment)).scalars().all()
    if numbers:
        rows = [{"table_id": table_id, "segment": number, "added_version": draft.version} for number in numbers]
        connection.execute(m.insert(), rows)
        draft.table(table_id).masks.extend(bases.masks(connection, table_id))
    own = connection.execute(select_spans().where(*bases.in_level(p, bases.Level(source_id, version)))).all()
    if own:
        partitions = _copy_partitions(connection, source_id, table_id, {row.partition_id for row in own})
        spans = []
        for row in own:
            partition_id, *carried = (getattr(row, name) for name in CARRIED)
            carried = [partitions.get(partition_id, partition_id), *carried]
            spans.append(span_row(table_id, row.segment, row.vector_id, draft.version, carried))
        connection.execute(p.insert(), spans)
    for segment in segments.by_number(connection, table_id, [row.segment for row in own], draft.version).values():
        ref = segments.existing_ref(table_id, segment)
        ref.dv_version = draft.version
        if segment.columns_id:
            codec.require_feature(draft.table(table_id), codec.FEATURE_COLUMN_FILES)
        draft.table(table_id).data_files.append(ref)
        codec.require_base_paths(draft.table(table_id), [ref.path])
