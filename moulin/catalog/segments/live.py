"""Segments and their spans: what is live at a version, found by partition and by time.

A time range is answered from one index. Spans are put into classes by length (class k holds spans shorter than 2^k ns),
so the start of an overlapping span of class k lies within 2^k before the range: one short index scan per class that the
table uses, however many segments there are and however long the longest one is.
"""

# Decisions: docs/decisions/0001, docs/decisions/0003

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import tables
from moulin.catalog.segments import column_sets
from moulin.catalog.segments.bases import Level, base_level, in_level, levels, unmasked
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import chunks
from moulin.catalog.sql.prepared import Prepared
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.model.facts import ColumnFile, LiveSegment, SegmentFacts, VectorFacts
from moulin.storage import paths

NO_TIME = -1
_LAST_CLASS = 62
_MIN, _MAX = -(1 << 63), (1 << 63) - 1
_MANY = 500
_FEW = 1000

PartitionFilter = Callable[[int, tuple[bytes | None, ...]], bool]
TimeRange = tuple[int | None, int | None]


def time_class(time_min: int | None, time_max: int | None) -> int:
    """The class of a span by its length; NO_TIME when it has no event time."""
    if time_min is None or time_max is None:
        return NO_TIME
    return min((time_max - time_min).bit_length(), _LAST_CLASS)


def encode_partition(values: Sequence[bytes | None]) -> bytes:
    message = pb.PartitionTuple(values=[pb.PartitionValue(value=value) for value in values])
    data: bytes = message.SerializeToString(deterministic=True)
    return data


@lru_cache(maxsize=1 << 14)
def decode_partition(data: bytes) -> tuple[bytes | None, ...]:
    """The inverse of `encode_partition`; segments share few partitions, so what was decoded is kept for a while."""
    if not data:
        return ()  # of a table without partitioning
    values = pb.PartitionTuple.FromString(data).values
    return tuple(value.value if value.HasField("value") else None for value in values)


def at_version(
    connection: sa.Connection,
    table_id: UUID,
    version: int,
    *,
    partition_filter: PartitionFilter | None = None,
    time_range: TimeRange | None = None,
    partition_ids: Collection[int] | None = None,
    with_columns: bool = True,
    columns: Collection[int] | None = None,
) -> list[LiveSegment]:
    """The live segments of a table at `version`, in order of their numbers.

    `partition_filter` is asked once per partition of the table. `time_range` is a closed range of event time; None on a
    side leaves it open, and segments without any event time are never in it. Both may let through more than what
    matches, never less. Column facts come for all fields, or for those whose ids are in `columns`; reading them is most
    of the work. `partition_ids` are numbers of partitions, as the catalog counts them, instead of a filter.
    """
    table = tables.find_by_id(connection, table_id)
    tables.require_kept(table, version)
    found = levels(table, version)
    asked = _Asked(
        [level.table_id for level in found],
        table.time_classes,
        None if time_range == (None, None) else time_range,
        partition_filter,
        partition_ids,
    )
    rows = [row for level in found for row in _rows(connection, level, asked)]
    rows.sort(key=_number)
    files = _files(connection, rows)
    return [_to_live(row, files, with_columns, columns) for row in rows]


def _files(connection: sa.Connection, rows: Iterable[Any]) -> dict[int, column_sets.Files]:
    """The column files of the sets that rows of `_query` name."""
    sets = {row[_COLUMNS_ID] for row in rows}
    return {0: ()} if sets <= {0} else column_sets.load(connection, sets)


class _Asked(NamedTuple):
    """What is asked of each level of a table; `table_ids` are those of all its levels, which share partitions."""

    table_ids: list[UUID]
    time_classes: int
    time_range: TimeRange | None
    partition_filter: PartitionFilter | None
    partition_ids: Collection[int] | None


def _rows(connection: sa.Connection, level: Level, asked: _Asked) -> list[Any]:
    masked = level.mask_of is not None
    in_range = in_partitions = False
    parameters = [level.parameters()]
    partition_filter = ask_first = asked.partition_filter
    rows: list[Any] | None = None
    if asked.time_range is not None:
        in_range = True
        parameters = [{**parameters[0], **bounds} for bounds in time_bounds(asked.time_classes, asked.time_range)]
        if ask_first is not None and None not in asked.time_range:
            rows = _few(connection, parameters, masked)
            if rows is not None or _has_many_partitions(connection, asked.table_ids):
                ask_first = None
    if ask_first is not None:
        partitions = [row for one in asked.table_ids for row in _PARTITIONS.all(connection, {"table_id": one})]
        wanted = [row[0] for row in partitions if ask_first(*_decoded(row[1:]))]
        if len(wanted) < len(partitions):
            in_partitions = True
            parameters = [{**values, "partition_ids": chunk} for values in parameters for chunk in chunks(wanted)]
    if asked.partition_ids is not None:
        in_partitions, rows = True, None
        chosen = list(chunks(sorted(asked.partition_ids)))
        parameters = [{**values, "partition_ids": chunk} for values in parameters for chunk in chosen]
    if rows is None:
        if in_partitions:
            query = _live(masked, in_range).where(_IN_PARTITIONS)
            rows = [row for values in parameters for row in connection.execute(query, values).all()]
        else:
            prepared = _prepared(masked, in_range)
            rows = [row for values in parameters for row in prepared.all(connection, values)]
    if partition_filter is not None and ask_first is None:
        kept = {one for one in {_partition(row) for row in rows} if partition_filter(*_decoded(one))}
        rows = [row for row in rows if _partition(row) in kept]
    return rows


def by_number(
    connection: sa.Connection, table_id: UUID, numbers: Iterable[int], version: int, *, with_columns: bool = True
) -> dict[int, LiveSegment]:
    """Those of the segments `numbers` that are live in a table at `version`."""
    wanted = list(numbers)
    found = _in_level(connection, wanted, Level(table_id, version), with_columns)
    if len(found) < len(set(wanted)) and (base := base_level(connection, table_id, version)) is not None:
        found |= _in_level(connection, [number for number in wanted if number not in found], base, with_columns)
    return found


def _in_level(
    connection: sa.Connection, numbers: Sequence[int], level: Level, with_columns: bool
) -> dict[int, LiveSegment]:
    p = s.segment_spans
    found: dict[int, LiveSegment] = {}
    for chunk in chunks(numbers):
        rows: Sequence[Any]
        if len(chunk) == 1:
            rows = _one_live(level.mask_of is not None).all(connection, {**level.parameters(), "segment": chunk[0]})
        else:
            query = _query().where(p.c.segment.in_(chunk), *in_level(p, level))
            rows = connection.execute(query).all()
        files = _files(connection, rows)
        found.update({row.number: _to_live(row, files, with_columns) for row in rows})
    return found


def written_bytes(connection: sa.Connection, table_id: UUID, after: int) -> dict[int, int]:
    """Bytes of the segments that versions after `after` added, by level."""
    g, p = s.segments, s.segment_spans
    mine = g.c.number.in_(sa.select(p.c.segment).where(p.c.table_id == table_id))
    query = sa.select(g.c.level, sa.func.sum(g.c.size)).where(mine, g.c.added_version > after)
    return {int(level): int(size) for level, size in connection.execute(query.group_by(g.c.level))}


def partitions_of_table(
    connection: sa.Connection, table_id: UUID, limit: int | None = None
) -> list[tuple[int, tuple[bytes | None, ...]]]:
    """Spec id and values of every partition of a table, in the order in which they came; at most `limit`."""
    p, base = s.partitions, base_level(connection, table_id, 0)
    mine = p.c.table_id == table_id if base is None else p.c.table_id.in_([table_id, base.table_id])
    query = sa.select(p.c.spec_id, p.c.tuple).where(mine).order_by(p.c.id).limit(limit)
    return list(dict.fromkeys((row[0], decode_partition(row[1])) for row in connection.execute(query)))


def with_vectors(connection: sa.Connection, table_id: UUID, vectors: Mapping[int, int]) -> list[LiveSegment]:
    """Segments of a table, by number, with the deletion vectors (0: none) that some kept version saw them with."""
    p = s.segment_spans
    found: dict[int, Any] = {}
    base = base_level(connection, table_id, 0)  # a mask hides nothing here: some version saw what it hides now
    for source in (p.c.table_id == table_id, *([] if base is None else [sa.and_(*in_level(p, base))])):
        for chunk in chunks(sorted(vectors.keys() - found.keys())):
            rows = connection.execute(_query().where(p.c.segment.in_(chunk), source).order_by(p.c.added_version))
            found.update({row.number: row for row in rows if (row.vector_id or 0) == vectors[row.number]})
    files = _files(connection, found.values())
    return [_to_live(row, files, True) for _, row in sorted(found.items())]


def count_rows(connection: sa.Connection, table_id: UUID, version: int) -> int:
    """Live rows at `version`, from facts alone."""
    table = tables.find_by_id(connection, table_id)
    tables.require_kept(table, version)
    if version >= table.head_version:
        return int(table.rows)
    p, g, d = s.segment_spans, s.segments, s.deletion_vectors
    query = sa.select(sa.func.sum(g.c.rows - sa.func.coalesce(d.c.cardinality, 0))).select_from(
        p.join(g, g.c.number == p.c.segment).join(d, d.c.id == p.c.vector_id, isouter=True)
    )
    return sum(
        int(connection.execute(query.where(*in_level(p, one))).scalar_one() or 0) for one in levels(table, version)
    )


def refs_at_version(connection: sa.Connection, table_id: UUID, version: int) -> Iterator[pb.DataFileRef]:
    """The live segments of a table at `version` as a full manifest holds them: those of its base are not among them."""
    owners = s.segments.c.table_id.label("owner"), s.deletion_vectors.c.table_id.label("vector_owner")
    query = _live(False, False).add_columns(*owners).order_by(s.segments.c.number)
    rows = connection.execute(query, {"table_id": table_id, "version": version}).all()
    files = _files(connection, rows)
    for row in rows:
        ref = existing_ref(table_id, _to_live(row[: -len(owners)], files, False))
        ref.adopted = bool(ref.owner) and row.owner == table_id
        ref.dv_adopted = bool(row.vector_id) and row.vector_owner == table_id and not lies_in(table_id, row.vector_path)
        ref.columns.MergeFromString(row.facts)
        ref.since_version = row.since_version
        if row.vector_id:
            ref.dv_version = row.vector_version
        yield ref


def existing_ref(table_id: UUID, segment: LiveSegment) -> pb.DataFileRef:
    """The full description of a segment of a table, for readers without its addition, or if it was created for another
    table.
    """
    ref = codec.segment_to_ref(segment, codec.EXISTING)
    parsed = paths.parse_segment_path(segment.facts.path)
    adopted = segment.facts.adopted
    owner = None if parsed is None else parsed[0]
    if (owner := owner if adopted is None else adopted.owner) is not None and owner != table_id:
        ref.owner = owner.bytes
    return ref


def lies_in(table_id: UUID, path: str) -> bool:
    """Whether an object is in the folder of a table."""
    return path.startswith(f"{paths.table_prefix(table_id)}/")


def _at(version: int | sa.BindParameter[int]) -> tuple[sa.ColumnElement[bool], ...]:
    p = s.segment_spans
    return p.c.added_version <= version, p.c.removed_version > version


# What is read of a segment, in the order in which `_to_live` takes it apart.
_FACTS = (
    "number", "path", "rows", "size", "level", "schema_id", "sha256", "facts", "time_min", "time_max", "has_lineage",
    "seq_min", "seq_max", "key_min", "key_max", "sort_order_id", "region", "index_size", "inline",
)  # fmt: skip
_JOINED = ("first_row_id", "sequence", "joined_version", "columns_id")
_COLUMNS_ID = len(_FACTS) + len(_JOINED) - 1
_number, _partition = itemgetter(0), itemgetter(-2, -1)


def _query(p: sa.FromClause = s.segment_spans) -> sa.Select[Any]:
    """The segments of spans, or of some columns of theirs, with their deletion vectors and partitions."""
    g, d, t = s.segments, s.deletion_vectors, s.partitions
    return sa.select(
        *(g.c[name] for name in _FACTS),
        *(p.c[name] for name in _JOINED),
        d.c.id.label("vector_id"),
        d.c.path.label("vector_path"),
        d.c.offset,
        d.c.length,
        d.c.cardinality,
        d.c.added_version.label("vector_version"),
        p.c.added_version.label("since_version"),
        t.c.spec_id,
        t.c.tuple,
    ).select_from(
        p.join(g, g.c.number == p.c.segment)
        .join(t, t.c.id == g.c.partition_id)
        .join(d, d.c.id == p.c.vector_id, isouter=True)
    )


# Built once: putting a statement together takes longer than running it.
@cache
def _live(masked: bool, in_range: bool) -> sa.Select[Any]:
    p = s.segment_spans
    query = _query().where(p.c.table_id == sa.bindparam("table_id"), *_at(sa.bindparam("version")))
    if in_range:
        query = query.where(*_IN_RANGE)
    return query.where(_unmasked(p)) if masked else query


@cache
def _prepared(masked: bool, in_range: bool) -> Prepared:
    return Prepared(_live(masked, in_range))


@cache
def _one_live(masked: bool) -> Prepared:
    return Prepared(_live(masked, False).where(s.segment_spans.c.segment == sa.bindparam("segment")))


def _unmasked(p: sa.FromClause) -> sa.ColumnElement[bool]:
    return unmasked(p, sa.bindparam("mask_of", type_=s.Id()), sa.bindparam("mask_version"))


_PARTITIONS = Prepared(
    sa.select(s.partitions.c.id, s.partitions.c.spec_id, s.partitions.c.tuple).where(
        s.partitions.c.table_id == sa.bindparam("table_id")
    )
)
_IN_PARTITIONS = s.segment_spans.c.partition_id.in_(sa.bindparam("partition_ids", expanding=True))
_IN_RANGE = (
    s.segment_spans.c.time_class == sa.bindparam("time_class"),
    s.segment_spans.c.time_min >= sa.bindparam("first_start"),
    s.segment_spans.c.time_min <= sa.bindparam("last_start"),
    s.segments.c.time_max >= sa.bindparam("first_end"),
)


@cache
def _few_in_range(classes: int, masked: bool) -> Prepared:
    """One statement for so many time classes: asked one by one, the way to and fro would be most of the time."""
    p = s.segment_spans
    spans = sa.union_all(
        *(
            sa.select(p.c.segment, p.c.vector_id, p.c.added_version, *(p.c[name] for name in _JOINED)).where(
                p.c.table_id == sa.bindparam("table_id"),
                *_at(sa.bindparam("version")),
                p.c.time_class == sa.bindparam(f"time_class_{index}"),
                p.c.time_min >= sa.bindparam(f"first_start_{index}"),
                p.c.time_min <= sa.bindparam("last_start"),
                *([_unmasked(p)] if masked else []),
            )
            for index in range(classes)
        )
    ).subquery("spans")
    return Prepared(_query(spans).where(s.segments.c.time_max >= sa.bindparam("first_end")).limit(_FEW + 1))


def _few(connection: sa.Connection, parameters: Sequence[Mapping[str, Any]], masked: bool) -> list[Any] | None:
    """The segments of a time range, when they are few: then it is their partitions that need a look, not all."""
    if not parameters:
        return []
    values = dict(parameters[0])
    for index, bounds in enumerate(parameters):
        values |= {f"{name}_{index}": bounds[name] for name in ("time_class", "first_start")}
    del values["time_class"], values["first_start"]
    rows = _few_in_range(len(parameters), masked).all(connection, values)
    return list(rows) if len(rows) <= _FEW else None


def time_bounds(classes: int, time_range: TimeRange) -> Iterator[dict[str, int]]:
    """What to ask of each class that the table uses."""
    low = _MIN if time_range[0] is None else min(max(time_range[0], _MIN), _MAX)
    high = _MAX if time_range[1] is None else min(max(time_range[1], _MIN), _MAX)
    for k in range(_LAST_CLASS + 1):
        if classes >> k & 1:
            first = _MIN if k == _LAST_CLASS else max(low - (1 << k) + 1, _MIN)
            yield {"time_class": k, "first_start": first, "last_start": high, "first_end": low}


def _decoded(partition: Sequence[Any]) -> tuple[int, tuple[bytes | None, ...]]:
    spec_id, values = partition
    return spec_id, decode_partition(values)


def _has_many_partitions(connection: sa.Connection, table_ids: Collection[UUID]) -> bool:
    """Whether to ask about the partitions of what a time range found, rather than about all there are."""
    some = sa.select(s.partitions.c.id).where(s.partitions.c.table_id.in_(table_ids)).offset(_MANY).limit(1)
    return connection.execute(some).first() is not None


def _to_live(
    row: Any, files: Mapping[int, column_sets.Files], with_columns: bool, columns: Collection[int] | None = None
) -> LiveSegment:
    # Taken apart at once: looking up thirty names in a row takes longer than everything else here.
    (
        number, path, rows, size, level, schema_id, sha256, stored, time_min, time_max, has_lineage,
        seq_min, seq_max, key_min, key_max, sort_order_id, region, index_size, is_inline,
        first_row_id, sequence, joined_version, columns_id,
        vector_id, vector_path, offset, length, cardinality, _, _, spec_id, partition,
    ) = row  # fmt: skip
    needed = with_columns or is_inline or path.startswith(codec.BASES_PREFIX)
    details = pb.SegmentColumns.FromString(stored) if needed else None
    beside = files[columns_id] if columns_id else ()
    found = codec.decode_columns(details, columns) if details is not None and with_columns else ()
    if beside and with_columns:
        more = (column for file in beside for column in file.columns)
        found += tuple(column for column in more if columns is None or column.field_id in columns)
    facts = SegmentFacts(
        number,
        path,
        rows,
        size,
        level,
        schema_id,
        spec_id,
        decode_partition(partition),
        sha256,
        found,
        time_min,
        time_max,
        has_lineage,
        seq_min if has_lineage else None,
        seq_max if has_lineage else None,
        key_min,
        key_max,
        sort_order_id,
        tuple(details.split_offsets) if details is not None and with_columns else (),
        region,
        index_size,
        details.inline if details is not None and is_inline else None,
        beside,
        None if details is None else codec.decode_adopted(details),
    )
    vector = VectorFacts(vector_id, number, vector_path, offset, length, cardinality) if vector_id else None
    return LiveSegment(facts, first_row_id, sequence, joined_version, vector, columns_id)


class Shared(NamedTuple):
    """A segment whatever shows it: the table in whose folder it lies, and the vectors of all its spans, by id.

    Id 0 stands for spans without one. Each vector comes with the table that it was made for. `segment` has no column
    files; `sets` are those of all its spans, by id, and `makers` the tables in whose folders they lie, by path.
    """

    segment: LiveSegment
    owner: UUID
    vectors: dict[int, tuple[VectorFacts | None, UUID]]
    sets: dict[int, column_sets.Files]
    makers: dict[str, UUID]

    @property
    def files(self) -> tuple[ColumnFile, ...]:
        """Its distinct column files."""
        return tuple({file.path: file for files in self.sets.values() for file in files}.values())

    def beside(self, columns_id: int) -> LiveSegment:
        """The segment with the column files of one of its sets."""
        files = self.sets[columns_id]
        columns = self.segment.facts.columns + tuple(column for file in files for column in file.columns)
        return replace(self.segment, facts=replace(self.segment.facts, files=files, columns=columns))


def with_any_vector(connection: sa.Connection, numbers: Sequence[int]) -> list[Shared]:
    """Segments by number, in whichever table and version, with every vector and column file that a span has."""
    p, g, d = s.segment_spans, s.segments, s.deletion_vectors
    found: dict[int, Shared] = {}
    for chunk in chunks(numbers):
        owners = {
            row.number: row.table_id
            for row in connection.execute(sa.select(g.c.number, g.c.table_id).where(g.c.number.in_(chunk)))
        }
        made = sa.select(d.c.id, d.c.table_id).where(d.c.segment.in_(chunk))
        makers = {row.id: row.table_id for row in connection.execute(made)}
        rows = connection.execute(_query().where(p.c.segment.in_(chunk))).all()
        files = _files(connection, rows)
        folders = column_sets.owners(connection, files)
        for row in rows:
            columns_id = row[_COLUMNS_ID]
            live = _to_live((*row[:_COLUMNS_ID], 0, *row[_COLUMNS_ID + 1 :]), files, True)
            number, vector = live.facts.number, live.vector
            one = found.setdefault(number, Shared(live, owners[number], {}, {}, {}))
            one.vectors[vector.id if vector else 0] = (vector, makers[vector.id] if vector else owners[number])
            one.sets[columns_id] = files[columns_id] if columns_id else ()
            one.makers.update({file.path: folders[file.path] for file in one.sets[columns_id]})
    return list(found.values())
