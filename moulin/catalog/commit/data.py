"""Commits that change rows: add and remove segments, replace deletion vectors, record journals of compactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from moulin.catalog.commit import arrivals, required
from moulin.catalog.commit.table_change import TableChange
from moulin.catalog.commit.table_commit import Stale
from moulin.catalog.objects import base_paths, tables
from moulin.catalog.segments import column_sets
from moulin.catalog.segments import live as segments
from moulin.catalog.segments.bases import in_level, levels
from moulin.catalog.segments.live import time_class
from moulin.catalog.segments.sql_rows import (
    CARRIED,
    input_rows,
    journal_rows,
    partition_ids,
    segment_row,
    select_spans,
    span_row,
    vector_row,
)
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import chunks, take
from moulin.catalog.sql.prepared import Prepared
from moulin.catalog.tasks import claims
from moulin.errors import InvalidInput, Unsupported
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.model.conflicts import Verdict
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment, SegmentFacts, VectorFacts
from moulin.model.operations import Append, Compact, DataOperation, Expected, NewVector, Overwrite, Upsert
from moulin.model.schema.evolution import loses_values
from moulin.model.schema.schema import nested_ids


def apply_data(change: TableChange, operation: DataOperation) -> None:
    expected = [*operation.removed, *(vector.expected for vector in operation.vectors)]
    if len({e.segment for e in expected}) != len(expected):
        raise InvalidInput("An operation may change each segment only once.")
    keyed = any(facts.index_size for facts in operation.added)
    if isinstance(operation, Append | Overwrite) and keyed and not change.commit.regions:
        raise Unsupported(
            f"{change.name} has a primary key: add rows by upsert (Table.append, put), so that keys stay unique."
        )
    # otherwise only a compaction can add some
    if isinstance(operation, Upsert) and keyed and not change.commit.regions:
        _require_no_new_segments(change)
    if isinstance(operation, Compact):
        change.require_nothing_erased()
    arrivals.check_numbers(change, operation)
    spans = _expected_spans(change, expected)
    if isinstance(operation, Compact):
        _require_columns_kept(change, [spans[e.segment].columns_id for e in operation.removed], operation.added)
    remove(change, [spans[e.segment] for e in operation.removed])
    if isinstance(operation, Overwrite) and operation.everything:
        remove(change, list(open_spans(change)))
    _replace_vectors(change, [(spans[v.expected.segment], v) for v in operation.vectors])
    _add(change, operation.added, operation.added_vectors, same_rows=isinstance(operation, Compact))
    if isinstance(operation, Compact):
        _record_compaction(change, operation)


def _require_columns_kept(change: TableChange, sets: Sequence[int], added: Sequence[SegmentFacts]) -> None:
    """A compaction must include the column files of its inputs, if the table has these columns.

    One that read its inputs before the fill, or without their column files, would lose them.
    """
    if not any(sets):
        return
    beside = {
        number for files in column_sets.load(change.connection, sets).values() for f in files for number in f.fields
    }
    schema = tables.load(change.connection, change.row).schema
    for field in (field for field in schema.fields if field.field_id in beside):
        leaves = nested_ids(field)
        if any(leaves.isdisjoint(column.field_id for column in facts.columns) for facts in added):
            raise Stale(
                f"The compaction of {change.name} conflicts with another commit: it lacks column {field.name}, which "
                f"its inputs have by "
                "now. Read the table again and retry.",
                Verdict.RETRY,
                requirement=f"column {field.name}",
                expected="as read",
                found="filled",
            )


def _require_no_new_segments(change: TableChange) -> None:
    """An upsert searched its keys in the segments that it saw; they may also be in newer segments."""
    came = {row.version for row in change.since() if "added-data-files" in row.summary}
    if came:
        raise change.stale("the set of segments", "as read", "larger", came)


def open_spans(change: TableChange, numbers: Iterable[int] | None = None) -> Iterator[Any]:
    """Open spans of the table with the columns for sums, all or those of the segments `numbers`."""
    p = s.segment_spans
    wanted = None if numbers is None else set(numbers)
    sources = [in_level(p, levels(change.row, s.OPEN - 1)[0])]
    if change.row.base_id is not None:
        sources.append(in_level(p, levels(change.row, s.OPEN)[1]))
    for source in sources:
        query = select_spans().where(*source)
        if wanted is None:
            yield from change.connection.execute(query).all()
            continue
        for chunk in chunks(sorted(wanted)):
            for span in change.connection.execute(query.where(p.c.segment.in_(chunk))).all():
                wanted.discard(span.segment)
                yield span


def _expected_spans(change: TableChange, expected: Sequence[Expected]) -> dict[int, Any]:
    spans = {row.segment: row for row in open_spans(change, [e.segment for e in expected])} if expected else {}
    for e in expected:
        span = spans.get(e.segment)
        if span is None:
            raise change.stale(f"segment {e.segment}", "live", "gone", versions_that_touched(change, e.segment))
        if span.vector_id != e.vector_id:
            touched = versions_that_touched(change, e.segment)
            raise change.stale(f"the deletion vector of segment {e.segment}", e.vector_id, span.vector_id, touched)
    return spans


def versions_that_touched(change: TableChange, segment: int) -> set[int]:
    p = s.segment_spans
    query = sa.select(p.c.added_version, p.c.removed_version)
    query = query.where(p.c.segment == segment, p.c.table_id == change.table_id)
    m = s.span_masks
    masked = sa.select(m.c.added_version).where(m.c.segment == segment, m.c.table_id == change.table_id)
    spans = [*change.connection.execute(query), *change.connection.execute(masked)]
    return {version for span in spans for version in span if version < s.OPEN} | change.erased_since()


def close_spans(change: TableChange, spans: Sequence[Any]) -> None:
    """End spans of the table with this version; spans of its base are not changed but masked."""
    p, version = s.segment_spans, change.draft.version
    for chunk in chunks([span.id for span in spans if span.table_id == change.table_id]):
        change.connection.execute(p.update().where(p.c.id.in_(chunk)).values(removed_version=version))
    based = [span.segment for span in spans if span.table_id != change.table_id]
    if based:
        rows = [{"table_id": change.table_id, "segment": number, "added_version": version} for number in based]
        change.connection.execute(s.span_masks.insert(), rows)


def inline(spans: Sequence[Any]) -> int:
    """How many of the segments of these spans are inline."""
    return sum(bool(span.inline) for span in spans)


def remove(change: TableChange, spans: Sequence[Any]) -> None:
    if not spans:
        return
    close_spans(change, spans)
    for span in spans:
        change.manifest.data_files.append(pb.DataFileRef(path=span.path, number=span.segment, status=codec.DELETED))
    rows = sum(span.rows - span.deleted for span in spans)
    change.add(segments=-len(spans), rows=-rows, bytes=-sum(span.size for span in spans), inline=-inline(spans))
    change.count("deleted-data-files", len(spans))
    change.count("deleted-records", rows)


def _replace_vectors(change: TableChange, vectors: Sequence[tuple[Any, NewVector]]) -> None:
    if not vectors:
        return
    for span, new in vectors:
        if new.facts.segment != span.segment or not span.deleted < new.facts.cardinality <= span.rows:
            raise InvalidInput(
                f"A deletion vector of segment {new.facts.segment} with {new.facts.cardinality} positions cannot "
                f"follow one with {span.deleted} on segment {span.segment} of {span.rows} rows."
            )
    stored = _store_vectors(change, [new.facts for _, new in vectors])
    spans = [span for span, _ in vectors]
    close_spans(change, spans)
    reopened = []
    for span, vector in zip(spans, stored, strict=True):
        reopened.append(reopen_span(change, span, vector.id))
        if span.table_id == change.table_id:
            ref = pb.DataFileRef(
                path=span.path, number=span.segment, status=codec.EXISTING, dv_version=change.draft.version
            )
            codec.set_vector(ref, vector)
            note_columns(change, ref, span.columns_id)
            change.manifest.data_files.append(ref)
    change.connection.execute(s.segment_spans.insert(), reopened)
    describe(change, [span.segment for span in spans if span.table_id != change.table_id])
    rows = sum(vector.cardinality - span.deleted for span, vector in zip(spans, stored, strict=True))
    change.add(rows=-rows)
    change.count("deleted-records", rows)
    change.count("changed-deletion-vectors", len(vectors))


def note_columns(change: TableChange, ref: pb.DataFileRef, columns_id: int) -> None:
    """Record in a manifest that a segment keeps its column files, which an earlier manifest describes."""
    if columns_id:
        ref.columns_id = columns_id
        codec.require_feature(change.manifest, codec.FEATURE_COLUMN_FILES)


def describe(change: TableChange, numbers: Sequence[int]) -> None:
    """Put the full description of base segments into the manifest, because the table's own manifests lack it."""
    live = segments.by_number(change.connection, change.table_id, numbers, change.draft.version) if numbers else {}
    for segment in live.values():
        ref = segments.existing_ref(change.table_id, segment)
        ref.dv_version = change.draft.version
        note_columns(change, ref, segment.columns_id)
        change.manifest.data_files.append(ref)
    codec.require_base_paths(change.manifest, (segment.facts.path for segment in live.values()))


def reopen_span(change: TableChange, span: Any, vector_id: int) -> dict[str, Any]:
    """A span that starts with this version, for the segment of an earlier span."""
    carried = [getattr(span, name) for name in CARRIED]
    return span_row(change.table_id, span.segment, vector_id, change.draft.version, carried)


def _store_vectors(change: TableChange, vectors: Sequence[VectorFacts]) -> list[VectorFacts]:
    """Assign numbers to deletion vectors and store them."""
    first = take(change.connection, "vector", len(vectors))
    stored = [
        VectorFacts(first + index, v.segment, v.path, v.offset, v.length, v.cardinality)
        for index, v in enumerate(vectors)
    ]
    rows = [vector_row(change.table_id, vector, change.draft.version) for vector in stored]
    change.connection.execute(s.deletion_vectors.insert(), rows)
    return stored


_SEGMENTS, _SPANS = Prepared(s.segments.insert()), Prepared(s.segment_spans.insert())


def _add(
    change: TableChange, added: Sequence[SegmentFacts], vectors: Mapping[int, VectorFacts], *, same_rows: bool
) -> None:
    _check_added(change, added, vectors, same_rows=same_rows)
    if not added:
        return
    base_paths.check_added(
        change.draft, change.table_id, change.name, added, again=base_paths.AGAIN in change.commit.summary
    )
    version, sequence = change.draft.version, change.updates.get("last_sequence", change.row.last_sequence)
    if late := [facts for facts in added if (facts.seq_max or 0) > sequence]:
        raise InvalidInput(f"{late[0].path} holds rows of sequence number {late[0].seq_max}, which does not exist yet.")
    stored = dict(zip(vectors, _store_vectors(change, list(vectors.values())), strict=True)) if vectors else {}
    partitions = partition_ids(change.connection, change.table_id, {(f.spec_id, f.partition) for f in added})
    first_row_id, classes = change.row.next_row_id, change.row.time_classes
    segment_rows, span_rows = [], []
    for facts in added:
        live = LiveSegment(facts, first_row_id, sequence, version, stored.get(facts.number))
        ref = codec.segment_to_ref(live, codec.ADDED, change.manifest.data_files.add)
        partition_id = partitions[facts.spec_id, facts.partition]
        segment_rows.append(segment_row(change.table_id, ref, partition_id))
        k = time_class(facts.time_min, facts.time_max)
        classes |= 1 << k if k >= 0 else 0
        vector_id = live.vector.id if live.vector else 0
        times = facts.time_min or 0, facts.time_max or 0
        carried = (partition_id, k, *times, first_row_id, sequence, version, 0)
        span_rows.append(span_row(change.table_id, facts.number, vector_id, version, carried))
        first_row_id += facts.rows
    _SEGMENTS.run(change.connection, *segment_rows)
    _SPANS.run(change.connection, *span_rows)
    rows = first_row_id - change.row.next_row_id
    live_rows = rows - sum(vector.cardinality for vector in stored.values())
    change.updates["next_row_id"], change.updates["time_classes"] = first_row_id, classes
    change.add(segments=len(added), rows=live_rows, bytes=sum(facts.size for facts in added))
    if held := sum(facts.inline is not None for facts in added):
        change.add(inline=held)
        codec.require_feature(change.manifest, codec.FEATURE_INLINE_SEGMENTS)
    codec.require_base_paths(change.manifest, (facts.path for facts in added))
    change.added_rows += rows
    change.count("added-data-files", len(added))
    change.count("added-records", live_rows)
    change.count("added-files-size", sum(facts.size for facts in added))


def _check_added(
    change: TableChange, added: Sequence[SegmentFacts], vectors: Mapping[int, VectorFacts], *, same_rows: bool
) -> None:
    rows = {facts.number: facts.rows for facts in added}
    if len(rows) != len(added):
        raise InvalidInput("An operation may add each segment only once.")
    for number, vector in vectors.items():
        if vector.segment != number or not 0 < vector.cardinality <= rows.get(number, 0):
            raise InvalidInput(f"The deletion vector of added segment {number} does not fit it.")
    arrivals.check_sums(change.row._mapping, sum(rows.values()), sum(facts.size for facts in added))
    for source, used in (
        (s.table_schemas, {facts.schema_id for facts in added} - {change.row.schema_id}),
        (s.table_specs, {facts.spec_id for facts in added} - {change.row.spec_id}),
        (s.table_sort_orders, {facts.sort_order_id for facts in added} - {0, change.row.sort_order_id}),
    ):
        if used:  # older than the current one: it must have existed
            query = sa.select(source.c[1]).where(source.c.table_id == change.table_id)
            if unknown := used.difference(change.connection.execute(query).scalars()):
                raise InvalidInput(f"{change.name} has no {source.c[1].name} {min(unknown)}, which a segment names.")
            if source is s.table_schemas:
                state = tables.load(change.connection, change.row)
                _require_values_seen(change, state, used)
                if not same_rows:  # inputs of a compaction are live, and so have no nulls
                    required.refuse_nulls(change, state, (facts for facts in added if facts.schema_id in used))


def _require_values_seen(change: TableChange, state: TableState, used: set[int]) -> None:
    """Rows written before a cast contain values that the new column would not show."""
    for schema_id in sorted(used):
        if (name := loses_values(state.schemas[schema_id], state.schema)) is not None:
            raise _prepared_before_cast(change, f"column {name}", "as written", "another column of that name")


def require_cast(change: TableChange) -> None:
    """After a cast, every live segment must be in the new schema, and every region of a keyed table be held."""
    p, g = s.segment_spans, s.segments
    row = tables.find_by_id(change.connection, change.table_id)
    older = sa.select(g.c.number).join(p, p.c.segment == g.c.number).where(g.c.schema_id != row.schema_id).limit(1)
    for level in levels(row, s.OPEN - 1):
        if (found := change.connection.execute(older.where(*in_level(p, level))).scalar()) is not None:
            raise _prepared_before_cast(change, f"segment {found}", "rewritten by the cast", "as it was")
    required.require_held(change, "the cast")


def _prepared_before_cast(change: TableChange, requirement: str, expected: str, found: str) -> Stale:
    return Stale(
        f"The {change.commit.operation.kind} of {change.name} conflicts with a cast of a column: {requirement} was "
        f"expected to be {expected} and is {found}. Read the table again and retry.",
        Verdict.RETRY,
        requirement=requirement,
        expected=expected,
        found=found,
    )


def _record_compaction(change: TableChange, operation: Compact) -> None:
    version = change.draft.version
    inputs = [e.segment for e in operation.removed]
    if inputs:
        change.connection.execute(s.merge_inputs.insert(), input_rows(change.table_id, version, inputs))
    if operation.journals:
        rows = journal_rows(change.table_id, version, operation.journals, operation.journal_outputs)
        change.connection.execute(s.journals.insert(), rows)
    claims.finish(change.connection, operation, change.table_id, change.name, version)
    change.manifest.journals.extend(operation.journals)
    change.manifest.merge_inputs.extend(inputs)
