"""Erase: removes rows from all versions. SQL only, under the counter's lock.

Segments keep their numbers and rows; their facts, files and deletion vectors are replaced in every span that has them,
of every table that shares them. So no version gains or loses a segment, journals and positions stay valid, and the feed
of older versions looks as if the rows had never existed. Segments without remaining rows are removed.
"""

# Decisions: docs/decisions/0440, docs/decisions/0680

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import tables
from moulin.catalog.segments import bases, column_sets, key_indexes
from moulin.catalog.segments.live import decode_partition, encode_partition, time_class
from moulin.catalog.segments.sql_rows import select_spans, vector_row
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import Draft
from moulin.catalog.sql.pool import chunks, take
from moulin.catalog.tasks import merge_tasks
from moulin.formats import erasure as scrubbing
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.model.facts import ColumnFile, SegmentFacts, VectorFacts
from moulin.model.ids import new_snapshot_id
from moulin.model.operations import Kind, RegionUse
from moulin.model.region_spec import erased_value, is_erased
from moulin.storage import paths


@dataclass(frozen=True, slots=True)
class PreparedErase:
    """The files that an erase has written: scrubbed segments, and a vector for each one that a span of theirs has (0:
    none).

    `owners` are the tables whose folders contain the vectors. `removed` are segments without remaining rows. All
    segments that tables of the `family` had at `read_version` were searched, and newer ones in `examined`, each with
    the number of its set of column files. `partitions` are those without segments then. `sources` are the files that
    were read, by segment. `columns` are the column files of the segments, by the paths that they had. `held` are
    regions with empty logs, by table.
    """

    id: UUID
    table_id: UUID
    family: frozenset[UUID]
    read_version: int
    examined: frozenset[tuple[int, int]]
    partitions: frozenset[int]
    sources: Mapping[int, str]
    segments: tuple[SegmentFacts, ...]
    columns: Mapping[str, ColumnFile]
    vectors: Mapping[tuple[int, int], VectorFacts]
    owners: Mapping[tuple[int, int], UUID]
    removed: frozenset[int]
    outline: str
    held: Mapping[UUID, Collection[RegionUse]]


@dataclass(slots=True)
class Erased:
    """The result of a commit: the erasure as stored in manifests, and unreferenced files with their sizes.

    `without_rows` are those among them without values.
    """

    erasure: pb.Erasure
    files: dict[str, int] = field(default_factory=dict)
    without_rows: dict[str, int] = field(default_factory=dict)


class Moved(Exception):
    """The tables changed since the erase was prepared: search the new segments, and retry."""


def family_of(connection: sa.Connection, table_id: UUID) -> frozenset[UUID]:
    """The tables that may share segments with a table: its base, and all clones of that base, including dropped
    ones.
    """
    t = s.tables
    root = connection.execute(sa.select(t.c.base_id).where(t.c.id == table_id)).scalar() or table_id
    clones = connection.execute(sa.select(t.c.id).where(t.c.base_id == root)).scalars()
    known = connection.execute(sa.select(t.c.id).where(t.c.id == root)).scalars()
    return frozenset({table_id, *known, *clones})


def apply(draft: Draft, prepared: PreparedErase) -> Erased:
    """Erase as one version of all tables of the family. Raises Moved if there are new segments that were not
    searched.
    """
    connection = draft.connection
    rows = {one: tables.find_by_id(connection, one, dropped_after=-1) for one in _still(connection, prepared)}
    changed = sorted({*(facts.number for facts in prepared.segments), *prepared.removed})
    _require_examined(connection, prepared, changed)
    before = {one: _sums(connection, row, changed) for one, row in rows.items()}
    done = Erased(pb.Erasure(id=prepared.id.bytes, version=draft.version, tables=sorted(one.bytes for one in rows)))
    _old_files(connection, changed, done)
    _drop_coverage(connection, changed, done)
    _replace_vectors(draft, prepared, done)
    _replace_segments(connection, prepared)
    for path, file in sorted(prepared.columns.items()):
        column_sets.replace_file(connection, path, file)
        done.erasure.column_files.add(before=path, after=codec.encode_file(file))
    partitions = _partitions_of(connection, prepared.removed) | prepared.partitions
    _remove(connection, prepared.removed)
    _drop_partitions(connection, prepared.family, partitions)
    _drop_tasks(connection, changed)
    _drop_projections(connection, prepared.family, done)
    _clean_summaries(connection, prepared.family)
    for row in rows.values():
        _forget_regions(draft, row, prepared, done.erasure)
    done.erasure.segments.extend(map(scrubbing.describe, prepared.segments))
    done.erasure.removed.extend(sorted(prepared.removed))
    done.erasure.deleted.extend(sorted(done.files))
    for one, row in rows.items():
        _record(draft, row, before[one], _sums(connection, row, changed), prepared)
    draft.lake().erasures.append(done.erasure)
    codec.require_feature(draft.lake(), codec.FEATURE_ERASURES)
    _clean_outbox(connection, done.erasure)
    return done


def _still(connection: sa.Connection, prepared: PreparedErase) -> list[UUID]:
    """The tables of the family, which must be the searched ones; some may have been purged since."""
    t = s.tables
    root = sa.select(t.c.id).where(sa.or_(t.c.id.in_(prepared.family), t.c.base_id.in_(prepared.family)))
    found = list(connection.execute(root.order_by(t.c.created_version, t.c.id)).scalars())
    if not prepared.family.issuperset(found):
        raise Moved
    return found


def _require_examined(connection: sa.Connection, prepared: PreparedErase, changed: Sequence[int]) -> None:
    p, g = s.segment_spans, s.segments
    came = sa.select(p.c.segment, p.c.columns_id).join(g, g.c.number == p.c.segment).distinct()
    came = came.where(p.c.table_id.in_(prepared.family), p.c.added_version > prepared.read_version)
    came = came.where(sa.or_(g.c.added_version > prepared.read_version, p.c.columns_id != 0))
    if not prepared.examined.issuperset(map(tuple, connection.execute(came))):
        raise Moved
    files = column_sets.of_segments(connection, [facts.number for facts in prepared.segments])
    if files.keys() != prepared.columns.keys():
        raise Moved
    for chunk in chunks(changed):
        for row in connection.execute(sa.select(g.c.number, g.c.path).where(g.c.number.in_(chunk))):
            if row.path != prepared.sources[row.number]:
                raise Moved
    known = {*prepared.vectors, *((number, None) for number in prepared.removed)}
    for chunk in chunks(changed):
        query = sa.select(p.c.segment, p.c.vector_id).where(p.c.segment.in_(chunk)).distinct()
        for segment, vector in connection.execute(query):
            if (segment, vector) not in known and (segment, None) not in known:
                raise Moved


def _sums(connection: sa.Connection, row: Any, numbers: Sequence[int]) -> dict[str, int]:
    """Segments, rows, bytes and inline segments of a table's current segments in `numbers`."""
    p = s.segment_spans
    levels = [bases.levels(row, s.OPEN - 1)[0]]
    if row.base_id is not None:
        levels.append(bases.levels(row, s.OPEN)[1])
    spans = [
        span
        for level in levels
        for chunk in chunks(numbers)
        for span in connection.execute(select_spans().where(p.c.segment.in_(chunk), *bases.in_level(p, level)))
    ]
    return {
        "segments": len(spans),
        "rows": sum(span.rows - span.deleted for span in spans),
        "bytes": sum(span.size for span in spans),
        "inline": sum(bool(span.inline) for span in spans),
    }


def _old_files(connection: sa.Connection, changed: Sequence[int], done: Erased) -> None:
    """All files of segments. Add new kinds of files here."""
    done.files.update(column_sets.of_segments(connection, changed))
    g = s.segments
    for chunk in chunks(changed):
        for row in connection.execute(sa.select(g).where(g.c.number.in_(chunk))):
            if not paths.is_adopted(row.path):  # adopted files stay, and are listed in the report
                done.files[row.path] = row.size
    done.files.update((index.path, index.size) for index in key_indexes.of_segments(connection, changed))


def _drop_coverage(connection: sa.Connection, changed: Sequence[int], done: Erased) -> None:
    """Secondary index files contain values: delete those that cover a changed segment, with all their coverage."""
    c, f = s.index_coverage, s.index_files
    found: set[str] = set()
    for chunk in chunks(changed):
        found.update(connection.execute(sa.select(c.c.path).where(c.c.segment.in_(chunk))).scalars())
    for chunk_ in chunks(sorted(found)):
        for row in connection.execute(sa.select(f.c.path, f.c.size).where(f.c.path.in_(chunk_))):
            done.files[row.path] = row.size
        connection.execute(c.delete().where(c.c.path.in_(chunk_)))
        connection.execute(f.delete().where(f.c.path.in_(chunk_)))


def _replace_vectors(draft: Draft, prepared: PreparedErase, done: Erased) -> None:
    connection, p, d = draft.connection, s.segment_spans, s.deletion_vectors
    pairs = sorted(prepared.vectors)
    first = take(connection, "vector", len(pairs)) if pairs else 0
    stored: list[dict[str, Any]] = []
    for number, (segment, old) in enumerate(pairs, first):
        facts = prepared.vectors[segment, old]
        vector = VectorFacts(number, segment, facts.path, facts.offset, facts.length, facts.cardinality)
        stored.append(vector_row(prepared.owners[segment, old], vector, draft.version))
        done.erasure.vectors.add(
            segment=segment,
            before=old,
            id=number,
            path=facts.path,
            offset=facts.offset,
            length=facts.length,
            cardinality=facts.cardinality,
        )
        mine = sa.and_(p.c.segment == segment, p.c.vector_id == old)
        connection.execute(p.update().where(mine).values(vector_id=number))
    _forget_vectors(connection, {segment for segment, _ in pairs} | prepared.removed, done)
    if stored:
        connection.execute(d.insert(), stored)


def _forget_vectors(connection: sa.Connection, segments: Collection[int], done: Erased) -> None:
    """The vectors of the spans. Their files contain no values, and are deleted if they have no vectors of other
    segments.
    """
    d = s.deletion_vectors
    files: set[str] = set()
    for chunk in chunks(sorted(segments)):
        files.update(connection.execute(sa.select(d.c.path).where(d.c.segment.in_(chunk))).scalars())
        connection.execute(d.delete().where(d.c.segment.in_(chunk)))
    for names in chunks(sorted(files)):
        files.difference_update(connection.execute(sa.select(d.c.path).where(d.c.path.in_(names))).scalars())
    done.without_rows.update(dict.fromkeys(files, 0))


def _replace_segments(connection: sa.Connection, prepared: PreparedErase) -> None:
    g, p = s.segments, s.segment_spans
    for facts in prepared.segments:
        columns = codec.encode_columns(facts.columns, facts.split_offsets)
        connection.execute(
            g.update()
            .where(g.c.number == facts.number)
            .values(
                path=facts.path,
                size=facts.size,
                sha256=facts.sha256,
                facts=columns.SerializeToString(deterministic=True),
                inline=False,
                time_min=facts.time_min,
                time_max=facts.time_max,
                key_min=facts.key_min,
                key_max=facts.key_max,
                index_size=facts.index_size,
            )
        )
        times = {"time_min": facts.time_min or 0, "time_max": facts.time_max or 0}
        k = time_class(facts.time_min, facts.time_max)
        connection.execute(p.update().where(p.c.segment == facts.number).values(time_class=k, **times))


def _remove(connection: sa.Connection, removed: Iterable[int]) -> None:
    for names in chunks(sorted(column_sets.of_segments(connection, removed))):
        for files in (s.column_sets, s.column_files):
            connection.execute(files.delete().where(files.c.path.in_(names)))
    for chunk in chunks(sorted(removed)):
        for table in (s.segment_spans, s.span_masks, s.index_coverage, s.merge_task_inputs):
            connection.execute(table.delete().where(table.c.segment.in_(chunk)))
        connection.execute(s.segments.delete().where(s.segments.c.number.in_(chunk)))


def _partitions_of(connection: sa.Connection, removed: Iterable[int]) -> frozenset[int]:
    p, found = s.segment_spans, set[int]()
    for chunk in chunks(sorted(removed)):
        for source, column in ((p, p.c.segment), (s.segments, s.segments.c.number)):
            found.update(connection.execute(sa.select(source.c.partition_id).where(column.in_(chunk))).scalars())
    return frozenset(found)


def unused_partitions(connection: sa.Connection, family: Collection[UUID]) -> frozenset[int]:
    """Unused partition tuples, which contain values of removed rows."""
    t, p = s.partitions, s.segment_spans
    used = sa.select(p.c.partition_id).where(p.c.table_id.in_(family))
    query = sa.select(t.c.id).where(t.c.table_id.in_(family), t.c.id.not_in(used))
    return frozenset(connection.execute(query).scalars())


def _drop_partitions(connection: sa.Connection, family: Collection[UUID], candidates: Collection[int]) -> None:
    t, p = s.partitions, s.segment_spans
    for chunk in chunks(sorted(candidates)):
        query = sa.select(p.c.partition_id).where(p.c.table_id.in_(family), p.c.partition_id.in_(chunk))
        unused = sorted({*chunk}.difference(connection.execute(query.distinct()).scalars()))
        connection.execute(t.delete().where(t.c.id.in_(unused)))


def _drop_tasks(connection: sa.Connection, changed: Sequence[int]) -> None:
    i = s.merge_task_inputs
    found: set[UUID] = set()
    for chunk in chunks(changed):
        found.update(connection.execute(sa.select(i.c.task_id).where(i.c.segment.in_(chunk))).scalars())
    merge_tasks.delete_all(connection, sorted(found))


def _drop_projections(connection: sa.Connection, family: Collection[UUID], done: Erased) -> None:
    """Iceberg projections contain bounds and partitions, so they are deleted and rebuilt on demand."""
    f = s.projection_files
    for row in connection.execute(sa.select(f.c.path, f.c.size).where(f.c.table_id.in_(family))):
        done.files[row.path] = row.size
    for table in (s.projection_files, s.projections):
        connection.execute(table.delete().where(table.c.table_id.in_(family)))


def _forget_regions(draft: Draft, row: Any, prepared: PreparedErase, erasure: pb.Erasure) -> None:
    """Values of regions may be values of keys: those of regions without rows go. The next such key has a new region."""
    connection, r, g = draft.connection, s.regions, s.segments
    mine, epochs = r.c.table_id == row.id, {use.number: use.epoch for use in prepared.held.get(row.id, ())}
    named = sa.select(g.c.region).where(g.c.table_id.in_(prepared.family))
    for region in connection.execute(sa.select(r).where(mine, r.c.number > 0, r.c.number.not_in(named))).all():
        if is_erased(decode_partition(region.value)):
            continue
        if region.owner and epochs.get(region.number) != region.epoch:
            continue  # its log may hold rows
        value, epoch = encode_partition(erased_value(region.number)), region.epoch + 1
        connection.execute(
            r.update().where(mine, r.c.number == region.number).values(value=value, epoch=epoch, owner="")
        )
        erasure.regions.add(table=row.id.bytes, number=region.number, value=value)
        draft.table(row.id).regions.append(
            pb.Region(
                number=region.number, value=value, epoch=epoch, covered=region.covered, generation=region.generation
            )
        )


def _clean_summaries(connection: sa.Connection, family: Collection[UUID]) -> None:
    c = s.table_commits
    kept = sa.select(c.c.table_id, c.c.version, c.c.ordinal, c.c.summary).where(c.c.table_id.in_(family))
    text = sa.cast(c.c.summary, sa.String)
    kept = kept.where(text.like('%"where"%') | text.contains(f'"{scrubbing.PARTITIONS}', autoescape=True))
    for row in connection.execute(kept).all():
        clean = scrubbing.clean_summary(row.summary)
        if clean != row.summary:
            mine = (c.c.table_id == row.table_id, c.c.version == row.version, c.c.ordinal == row.ordinal)
            connection.execute(c.update().where(*mine).values(summary=clean))


def _record(
    draft: Draft, row: Any, before: Mapping[str, int], after: Mapping[str, int], prepared: PreparedErase
) -> None:
    """The erase in the history of one table."""
    manifest = draft.table(row.id)
    manifest.previous_snapshot_id = row.head_snapshot_id
    classes = row.time_classes
    for facts in prepared.segments:
        k = time_class(facts.time_min, facts.time_max)
        classes |= 1 << k if k >= 0 else 0
    changes = {name: getattr(row, name) + after[name] - before[name] for name in before}
    changes |= {"head_version": draft.version, "last_sequence": row.last_sequence + 1, "deltas": row.deltas + 1}
    changes["time_classes"] = classes
    draft.connection.execute(s.tables.update().where(s.tables.c.id == row.id).values(changes))
    now = SimpleNamespace(**{**row._mapping, **changes})
    gone = before["rows"] - after["rows"]
    summary = {"where": prepared.outline, **({"deleted-records": str(gone)} if gone else {})}
    tables.record_commit(draft, now, 0, Kind.ERASE.value, new_snapshot_id(), row.next_row_id, 0, summary)
    tables.fill_state(manifest, now)


def _clean_outbox(connection: sa.Connection, erasure: pb.Erasure) -> None:
    """Manifests of older versions that are not yet in storage."""
    scrubber, o = scrubbing.Scrubber(erasure), s.outbox
    for row in connection.execute(sa.select(o).where(o.c.version < erasure.version)).all():
        decoded = codec.decode(row.data, row.path)
        if scrubber.scrub(decoded.manifest):
            data = codec.encode(decoded.manifest, full=decoded.full)
            mine = (o.c.version == row.version, o.c.path == row.path)
            connection.execute(o.update().where(*mine).values(data=data))
