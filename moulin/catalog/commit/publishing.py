"""Publishing a branch: its changes become one version of main, for all tables or none.

If main has not changed a table since the fork version, it takes over the spans, vectors, settings and counters of the
branch's table. Otherwise it gets a change that the caller prepared from the rows of both sides, and segments of the
branch whose rows are all new. No file is copied: published segments and vectors belong to main's table afterwards, but
stay in the folder of the branch's table.
"""

# Decisions: docs/decisions/0413, docs/decisions/0414

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.commit import data, indexes, publish_names, publish_objects, regions, required
from moulin.catalog.commit.branches import changed, find
from moulin.catalog.commit.branches import drop as drop_branch
from moulin.catalog.commit.table_change import TableChange
from moulin.catalog.commit.table_commit import Stale, TableCommit
from moulin.catalog.objects import base_paths, tables
from moulin.catalog.segments.feed import FeedSegment, net_pairs
from moulin.catalog.segments.live import existing_ref, lies_in, time_class
from moulin.catalog.segments.sql_rows import partition_ids, span_row
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import MOST_DELTAS, SEQUENCES_PER_DELTA, Draft, add_rows
from moulin.catalog.sql.pool import chunks
from moulin.catalog.tasks import merge_tasks
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.model.conflicts import Verdict
from moulin.model.entities import BranchTable, TableState
from moulin.model.facts import LiveSegment
from moulin.model.ids import new_snapshot_id
from moulin.model.operations import DataOperation, Kind
from moulin.model.publication import Merged, foreseen, merge_settings
from moulin.model.schema.documents import schema_to_json
from moulin.model.tags import FILLING_PREFIX

PUBLISH = "publish"
BRANCH = "published-branch"  # in the summary of each commit of it


@dataclass(frozen=True, slots=True)
class TablePublication:
    """The changes of main's table from a branch's table `own_id`, which was at `head`.

    If main's table has `moved`, `commit` is the prepared change, and `adopted` are segments of the branch's table that
    are added unchanged. Otherwise main's table becomes equal to the branch's, and the operation of the commit is empty.
    The commit holds the regions of a keyed table.
    """

    own_id: UUID
    head: int
    commit: TableCommit
    moved: bool = False
    adopted: tuple[int, ...] = ()


def publish(draft: Draft, name: str, given: Sequence[TablePublication], *, grace_seconds: float) -> None:
    """Apply the changes of a branch to main, and drop the branch. REQUIRES: its keyed tables are flushed."""
    connection = draft.connection
    branch = find(connection, name)
    require_unpublished(branch)
    found = changed(connection, name)
    parts = {one.own_id: one for one in given}
    objects = publish_objects.Objects(draft, branch, found, grace_seconds)
    objects.apply()
    for table in found:
        if table.wrote and table.source_id is not None and table.after is not None:
            _publish_table(draft, branch, table, _part(parts, branch, table))
    objects.apply_views()
    b = s.branches
    connection.execute(b.update().where(b.c.id == branch.id).values(published_version=draft.version))
    drop_branch(draft, name, grace_seconds=grace_seconds)
    add_rows(draft, b, [branch.id])


def foreseen_states(connection: sa.Connection, name: str, given: Sequence[TablePublication]) -> dict[UUID, TableState]:
    """The new settings of main's tables, because published segments may use new schemas."""
    branch = find(connection, name)
    states = {}
    for part in given:
        if part.moved:
            row = tables.find_by_id(connection, part.commit.table_id)
            main, then = tables.load(connection, row), tables.load(connection, row, branch.version)
            own = tables.load(connection, tables.find_by_id(connection, part.own_id))
            states[row.id] = foreseen(main, own, merge_settings(main.full_name, name, then, main, own))
    return states


def require_unpublished(branch: Any) -> None:
    """Reject a branch that was published and resurrected: its rows would be duplicated.

    `branch` is its row or value.
    """
    if branch.published_version is not None:
        raise FailedPrecondition(
            f"Branch {branch.name!r} was published as version {branch.published_version}: create a new branch for "
            f"further changes."
        )


def _part(parts: Mapping[UUID, TablePublication], branch: Any, table: BranchTable) -> TablePublication:
    """The prepared change of a table; it must be based on the branch's newest version."""
    part = parts.get(table.own_id)
    if part is None or part.head != table.head or part.commit.table_id != table.source_id:
        raise _again(f"table {table.after} of branch {branch.name}", "as it was read", "changed since")
    return part


def _again(requirement: str, expected: str, found: str) -> Stale:
    return Stale(
        f"The publish conflicts with another commit: {requirement} was expected to be {expected} and is {found}. "
        f"Publish again.",
        Verdict.RETRY,
        requirement=requirement,
        expected=expected,
        found=found,
    )


def _publish_table(draft: Draft, branch: Any, table: BranchTable, part: TablePublication) -> None:
    change = TableChange(draft, part.commit)
    own = tables.find_by_id(draft.connection, table.own_id)
    if not part.moved and change.row.head_version > branch.version:
        raise _again(f"table {change.name}", f"as it was at version {branch.version}", "changed")
    change.summary[BRANCH] = branch.name
    before = tables.load(draft.connection, change.row, current=draft.version)
    then = tables.load(draft.connection, change.row, branch.version, current=draft.version)
    after = tables.load(draft.connection, own, current=draft.version)
    merged = merge_settings(change.name, branch.name, then, before, after)
    _begin(change)
    if before.schema.identifier_field_ids:
        regions.advance(change)
        required.require_held(change, "the publish")
        _add_regions(change, own.id, moved=part.moved)
    merged = publish_names.with_tags(draft.connection, merged, before, after, branch.version, draft.version, part.moved)
    _settle_settings(change, own.id, merged, every=not part.moved)
    made = publish_names.take_indexes(change, branch.name, after, merged.schema or before.schema)
    _require_no_column_files(draft.connection, own.id, table.after or "")
    pairs = net_pairs(draft.connection, own.id, table.since, draft.version)
    if part.moved:
        _take_change(change, pairs, part)
    else:
        _take_all(change, own, pairs)
    _finish(change, merged, made, has_rows=bool(pairs))
    merge_tasks.delete_of_table(draft.connection, own.id)  # their inputs can be compacted on main from now on


def _require_no_column_files(connection: sa.Connection, own_id: UUID, name: str) -> None:
    """A publish moves whole segments: columns filled on the branch must have been folded into them."""
    p, t = s.segment_spans, s.tables
    beside = sa.select(p.c.segment).where(p.c.table_id == own_id, p.c.removed_version == s.OPEN, p.c.columns_id != 0)
    properties = connection.execute(sa.select(t.c.properties).where(t.c.id == own_id)).scalar_one()
    if connection.execute(beside.limit(1)).first() or any(key.startswith(FILLING_PREFIX) for key in properties):
        raise FailedPrecondition(
            f"Columns of {name} are in separate files on the branch: complete them and compact the table there, then "
            f"publish again."
        )


def _begin(change: TableChange) -> None:
    change.add(deltas=1)
    change.updates["head_version"] = change.draft.version
    change.manifest.previous_snapshot_id = change.row.head_snapshot_id


def _add_regions(change: TableChange, own_id: UUID, *, moved: bool) -> None:
    """Regions that only the branch has: main's table gets them with the same numbers, which the segments contain."""
    r, connection = s.regions, change.connection
    mine = {row.number: row.value for row in connection.execute(sa.select(r).where(r.c.table_id == change.table_id))}
    for row in connection.execute(sa.select(r).where(r.c.table_id == own_id).order_by(r.c.number)).all():
        if mine.get(row.number) == row.value:
            continue
        if row.number in mine or row.value in mine.values():
            if not moved:
                raise _again(f"region {row.number} of {change.name}", "the same on both sides", "another")
        else:
            new = {"table_id": change.table_id, "number": row.number, "value": row.value, "owner": ""}
            connection.execute(r.insert().values(**new, epoch=0, covered=0, generation=1))
            change.manifest.regions.append(pb.Region(number=row.number, value=row.value, generation=1))


def _settle_settings(change: TableChange, own_id: UUID, merged: Merged, *, every: bool) -> None:
    """Schemas, specs and orders that the branch added, all or only the current ones."""
    stored: set[int] = set()
    for source, wanted in (
        (s.table_schemas, merged.schema_id),
        (s.table_specs, merged.spec_id),
        (s.table_sort_orders, merged.sort_order_id),
    ):
        known = sa.select(source.c[1]).where(source.c.table_id == change.table_id)
        mine = set(change.connection.execute(known).scalars())
        theirs = sa.select(source.c[1], source.c.json).where(source.c.table_id == own_id).order_by(source.c[1])
        for number, text in change.connection.execute(theirs).all() if every or wanted is not None else ():
            if number not in mine:
                tables.store_setting(change.draft, source, change.table_id, number, text)
            if source is s.table_schemas:
                stored.add(number)
    names = ("schema_id", "spec_id", "sort_order_id", "last_column_id", "last_partition_id")
    change.updates.update({name: value for name in names if (value := getattr(merged, name)) is not None})
    if merged.schema is not None and merged.schema_id not in stored:
        text = schema_to_json(merged.schema)  # columns of both sides
        tables.store_setting(change.draft, s.table_schemas, change.table_id, merged.schema.schema_id, text)
    if merged.properties is not None:
        change.updates["properties"] = dict(merged.properties)
    if merged.schema is not None:
        indexes.drop_without_column(change, merged.schema)


def _take_all(change: TableChange, own: Any, pairs: Sequence[FeedSegment]) -> None:
    """Make main's table equal to the branch's."""
    spans = {row.segment: row for row in data.open_spans(change, [p.before.facts.number for p in pairs if p.before])}
    gone = [spans[pair.before.facts.number] for pair in pairs if pair.before and pair.after is None]
    data.remove(change, gone)
    _take_vectors(change, spans, [pair.after for pair in pairs if pair.before and pair.after])
    came = [pair.after for pair in pairs if pair.before is None and pair.after is not None]
    _adopt(change, came, [(one.first_row_id, one.sequence) for one in came])
    change.updates.update(last_sequence=own.last_sequence, next_row_id=own.next_row_id)
    change.updates["time_classes"] = change.updates.get("time_classes", change.row.time_classes) | own.time_classes
    change.added_rows = own.next_row_id - change.row.next_row_id


def _take_change(change: TableChange, pairs: Sequence[FeedSegment], part: TablePublication) -> None:
    """Apply a change prepared from both sides, and add segments of the branch with only new rows."""
    came = {pair.after.facts.number: pair.after for pair in pairs if pair.before is None and pair.after is not None}
    if unknown := set(part.adopted) - came.keys():
        raise InvalidInput(f"Segment {min(unknown)} is not one that the branch added to {change.name}.")
    operation = part.commit.operation
    if not isinstance(operation, DataOperation):
        raise InvalidInput("A published change of a table must be a change of rows.")
    change.add(last_sequence=1)
    data.apply_data(change, operation)
    first, sequence = change.updates.get("next_row_id", change.row.next_row_id), change.updates["last_sequence"]
    joined = []
    for number in part.adopted:
        joined.append((first, sequence))
        first += came[number].facts.rows
    change.updates["next_row_id"] = first
    _adopt(change, [came[number] for number in part.adopted], joined)
    change.added_rows = first - change.row.next_row_id


def _take_vectors(change: TableChange, spans: Mapping[int, Any], segments: Sequence[LiveSegment]) -> None:
    """Deletion vectors of the branch for segments of main's table."""
    if not segments:
        return
    changed = [spans[segment.facts.number] for segment in segments]
    data.close_spans(change, changed)
    vectors = [segment.vector for segment in segments if segment.vector is not None]
    ids = {vector.segment: vector.id for vector in vectors}
    reopened = [data.reopen_span(change, span, ids.get(span.segment, 0)) for span in changed]
    change.connection.execute(s.segment_spans.insert(), reopened)
    _own(change, s.deletion_vectors, s.deletion_vectors.c.id, ids.values())
    for span, segment in zip(changed, segments, strict=True):
        ref = pb.DataFileRef(path=span.path, number=span.segment, dv_version=change.draft.version)
        if span.table_id != change.table_id:  # of main's base, which its own manifests do not describe
            ref = existing_ref(change.table_id, segment)
            ref.added_version, ref.dv_version = span.joined_version, change.draft.version
        ref.status = codec.EXISTING
        if segment.vector is not None:
            codec.set_vector(ref, segment.vector)
        _describe(change, ref)
    deleted = {
        segment.facts.number: 0 if segment.vector is None else segment.vector.cardinality for segment in segments
    }
    rows = sum(deleted[span.segment] - span.deleted for span in changed)
    change.add(rows=-rows)
    change.count("deleted-records", rows)
    change.count("changed-deletion-vectors", len(changed))


def _adopt(change: TableChange, segments: Sequence[LiveSegment], joined: Sequence[tuple[int, int]]) -> None:
    """Add segments of the branch to main's table; `joined` are the first row id and the sequence number of each."""
    if not segments:
        return
    base_paths.check_added(change.draft, change.table_id, change.name, [one.facts for one in segments], again=False)
    version, connection = change.draft.version, change.connection
    wanted = {(one.facts.spec_id, one.facts.partition) for one in segments}
    partitions = partition_ids(connection, change.table_id, wanted)
    classes, rows, spans = change.updates.get("time_classes", change.row.time_classes), 0, []
    placed: dict[int, list[int]] = {}
    for one, (first_row_id, sequence) in zip(segments, joined, strict=True):
        facts, vector = one.facts, one.vector
        partition_id = partitions[facts.spec_id, facts.partition]
        k = time_class(facts.time_min, facts.time_max)
        classes |= 1 << k if k >= 0 else 0
        carried = partition_id, k, facts.time_min or 0, facts.time_max or 0, first_row_id, sequence, version, 0
        spans.append(span_row(change.table_id, facts.number, vector.id if vector else 0, version, carried))
        placed.setdefault(partition_id, []).append(facts.number)
        ref = existing_ref(change.table_id, LiveSegment(facts, first_row_id, sequence, version, vector))
        ref.dv_version = version
        _describe(change, ref, adopted=True)
        rows += facts.rows - (vector.cardinality if vector else 0)
    for partition_id, numbers in placed.items():
        _own(change, s.segments, s.segments.c.number, numbers, partition_id=partition_id)
    _own(change, s.deletion_vectors, s.deletion_vectors.c.id, [one.vector.id for one in segments if one.vector])
    connection.execute(s.segment_spans.insert(), spans)
    size, held = sum(one.facts.size for one in segments), sum(one.facts.inline is not None for one in segments)
    change.updates["time_classes"] = classes
    change.add(segments=len(segments), rows=rows, bytes=size, inline=held)
    if held:
        codec.require_feature(change.manifest, codec.FEATURE_INLINE_SEGMENTS)
    codec.require_base_paths(change.manifest, (one.facts.path for one in segments))
    change.count("added-data-files", len(segments))
    change.count("added-records", rows)
    change.count("added-files-size", size)


def _describe(change: TableChange, ref: pb.DataFileRef, *, adopted: bool = False) -> None:
    """Put a segment into the manifest, and record which parts are taken over from another table."""
    ref.adopted = adopted
    ref.dv_adopted = bool(ref.dv_id) and not lies_in(change.table_id, ref.dv_path)
    change.manifest.data_files.append(ref)
    if ref.adopted or ref.dv_adopted:
        codec.require_feature(change.manifest, codec.FEATURE_BRANCHES)


def _own(change: TableChange, table: sa.Table, key: Any, numbers: Iterable[int], **values: int) -> None:
    """Transfer segments or vectors to main's table."""
    for chunk in chunks(sorted(numbers)):
        change.connection.execute(table.update().where(key.in_(chunk)).values(table_id=change.table_id, **values))


def _finish(change: TableChange, merged: Merged, made: Sequence[str], *, has_rows: bool) -> None:
    """Record the history: an operation for the rows, and one for each kind of changed setting."""
    kinds: list[tuple[Kind, Mapping[str, str]]] = [(Kind.UPSERT, change.summary)] if has_rows else []
    mark = {BRANCH: change.summary[BRANCH]}
    kinds += [(kind, mark | summary) for kind, summary in _settings(change, merged)]
    kinds += [(Kind.CREATE_INDEX, mark | {"index": name}) for name in made]
    row, snapshot_id = change.save(), new_snapshot_id()
    for ordinal, (kind, summary) in enumerate(kinds or [(Kind.SET_PROPERTIES, mark | {"keys": "[]"})]):
        first = change.row.next_row_id if ordinal == 0 else row.next_row_id
        added = change.added_rows if ordinal == 0 else 0
        properties = kind is Kind.SET_PROPERTIES and merged.properties is not None
        tables.record_commit(
            change.draft, row, ordinal, kind.value, snapshot_id, first, added, summary, properties_changed=properties
        )
    tables.fill_state(change.manifest, row)
    if row.deltas > min(row.last_sequence // SEQUENCES_PER_DELTA, MOST_DELTAS):
        change.draft.longest_chain = max(change.draft.longest_chain, row.deltas - row.inline)


def _settings(change: TableChange, merged: Merged) -> Collection[tuple[Kind, dict[str, str]]]:
    found: list[tuple[Kind, dict[str, str]]] = []
    if merged.schema_id is not None:
        found.append((Kind.ALTER_SCHEMA, {"changes": "; ".join(merged.lines)}))
    if merged.spec_id is not None:
        found.append((Kind.SET_PARTITIONING, {}))
    if merged.sort_order_id is not None:
        found.append((Kind.SET_SORT_ORDER, {}))
    if merged.properties is not None:
        found.append((Kind.SET_PROPERTIES, {"keys": json.dumps(sorted(merged.keys))}))
    return found
