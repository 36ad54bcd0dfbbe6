"""Compares a commit of another process with storage and with the table, before it takes the lock.

Writers in this process describe files that they have just closed. A writer behind a server may send anything: a commit
with a missing file would look like a lost file, and bounds of a wrong type would break every scan. The cost is one
request for each new object and the footer of each new segment, several in parallel. Other statements about the rows are
trusted: wrong ones harm only the table that the writer may change anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.commit import arrivals
from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.objects import tables
from moulin.catalog.segments import live as segments
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import Pool, chunks
from moulin.errors import Corrupt, FailedPrecondition, InvalidInput, NotFound, Unsupported
from moulin.formats import deletion_vector, secondary_index
from moulin.formats.segment.footer import check_level, decode_footer, read_footer, split_offsets
from moulin.formats.segment.opened import read_segment_footer
from moulin.model.alteration import altered
from moulin.model.entities import TableState
from moulin.model.facts import ColumnFacts, ColumnFile, SegmentFacts, VectorFacts
from moulin.model.layout.bounds import bound_from_bytes
from moulin.model.layout.partition import decode_partition
from moulin.model.operations import (
    AlterSchema,
    Compact,
    CreateIndex,
    DataOperation,
    Fill,
    IndexFile,
    Kind,
    UpdateIndex,
)
from moulin.model.schema.values import PrimitiveType
from moulin.storage.segment_source import key_index_of, open_segment
from moulin.storage.store import Store

_AT_ONCE = 16
_T = TypeVar("_T")

# A path, its required size, and whether it may be larger.
_Object = tuple[str, int, bool]


def require_delivered(
    pool: Pool, store: Store, commits: Sequence[TableCommit], foreseen: Mapping[UUID, TableState] | None = None
) -> None:
    """Reject commits with objects that are missing in storage or do not fit their table.

    `foreseen` are the states of tables that are not created yet.
    """
    states: dict[UUID, TableState | None] = dict(foreseen or {})
    for commit in commits:
        arrivals.check(commit)
        operation = commit.operation
        if isinstance(operation, DataOperation) and operation.added:
            if commit.table_id not in states:
                states[commit.table_id] = _fitting(pool, commits, commit.table_id)
            if (state := states[commit.table_id]) is not None:
                for facts in operation.added:
                    _check_key_index(state, facts)
                    check_fits(state, facts)
    added = [one for commit in commits if isinstance(commit.operation, DataOperation) for one in commit.operation.added]
    segments = {facts.path for facts in added}
    objects = [one for commit in commits for one in named_objects(commit) if one[0] not in segments]
    require_objects(store, objects)
    _each(lambda facts: check_footer(store, facts), added)
    _check_vectors(pool, store, commits)
    _check_column_files(pool, store, commits)
    operations = [commit.operation for commit in commits]
    files = [one for op in operations if isinstance(op, CreateIndex | UpdateIndex) for one in op.files]
    _each(lambda file: check_index(store, file), files)


def _fitting(pool: Pool, commits: Sequence[TableCommit], table_id: UUID) -> TableState | None:
    """The state of a table with all schemas that new segments may use, including those of `commits`.

    None if another commit altered a schema that these alter: they will be rejected.
    """
    c = s.table_commits
    with pool.read() as connection:
        state = tables.load(connection, tables.find_by_id(connection, table_id))
        for commit in commits:
            if commit.table_id == table_id and isinstance(commit.operation, AlterSchema):
                moved = sa.select(c.c.version).where(
                    c.c.table_id == table_id,
                    c.c.version > commit.read_version,
                    c.c.kind.in_([Kind.ALTER_SCHEMA.value, Kind.RESTORE.value]),
                )
                if connection.execute(moved.limit(1)).first() is not None:
                    return None
                state = altered(state, commit.operation.changes)
    return state


def _check_vectors(pool: Pool, store: Store, commits: Sequence[TableCommit]) -> None:
    """Reject deletion vectors that are unreadable, or have positions outside of their segment."""
    vectors: dict[str, list[VectorFacts]] = {}
    rows: dict[int, int] = {}
    for commit in commits:
        if isinstance(commit.operation, DataOperation):
            rows |= {facts.number: facts.rows for facts in commit.operation.added}
            for vector in _vectors(commit.operation):
                vectors.setdefault(vector.path, []).append(vector)
    g = s.segments
    numbers = {vector.segment for some in vectors.values() for vector in some} - rows.keys()
    with pool.read() as connection:
        for chunk in chunks(sorted(numbers)):
            query = sa.select(g.c.number, g.c.rows).where(g.c.number.in_(chunk))
            rows |= {row.number: row.rows for row in connection.execute(query)}
    _each(lambda some: check_vectors(store, some, rows), list(vectors.values()))


def _check_column_files(pool: Pool, store: Store, commits: Sequence[TableCommit]) -> None:
    """Reject column files whose row groups differ from those of their segment."""
    fills = [commit for commit in commits if isinstance(commit.operation, Fill)]
    for commit in fills:
        assert isinstance(commit.operation, Fill)
        files = {file.segment: file for file in commit.operation.files}
        with pool.read() as connection:
            version = int(connection.execute(sa.select(s.counter.c.version)).scalar_one())
            live = segments.by_number(connection, commit.table_id, list(files), version, with_columns=False)
        _each(lambda one: check_column_file(store, files[one.facts.number], one.facts), list(live.values()))  # noqa: B023


def check_column_file(store: Store, file: ColumnFile, facts: SegmentFacts) -> None:
    """Reject a column file whose row groups differ from those of the segment."""
    try:
        with store.reader(file.path, file.size) as source:
            found = read_footer(source, file.path)
        with open_segment(store, facts) as source:
            base = read_footer(source, facts.path)
    except NotFound:
        raise _missing(file.path) from None
    except Corrupt as error:
        raise InvalidInput(error.message) from None
    if _group_rows(found) != _group_rows(base):
        raise InvalidInput(f"{file.path} does not have the row groups of {facts.path}.")


def _group_rows(footer: Any) -> list[int]:
    return [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]


def check_vectors(store: Store, vectors: Sequence[VectorFacts], rows: Mapping[int, int]) -> None:
    """Reject vectors of one file that differ from their description."""
    blobs = store.get_ranges(vectors[0].path, [(vector.offset, vector.length) for vector in vectors])
    for vector, blob in zip(vectors, blobs, strict=True):
        where = f"The deletion vector of segment {vector.segment} in {vector.path}"
        try:
            found = len(deletion_vector.decode(blob, rows=rows.get(vector.segment, 0), source=where))
        except Corrupt as error:
            raise InvalidInput(error.message) from None
        if found != vector.cardinality:
            raise InvalidInput(f"{where} has {found} positions, not {vector.cardinality}.")


def check_index(store: Store, file: IndexFile) -> None:
    """Reject an index file that lacks a segment that it claims to cover: scans would skip its rows."""
    try:
        found = secondary_index.IndexFile(partial(store.get_range, file.path), file.size, file.path)
    except (Corrupt, Unsupported) as error:
        raise InvalidInput(error.message) from None
    if found.entries != file.entries or not set(file.segments) <= set(found.index_of):
        raise InvalidInput(
            f"{file.path} has {found.entries} entries of {len(found.index_of)} segments: not those named."
        )


def _vectors(operation: DataOperation) -> Iterator[VectorFacts]:
    yield from (new.facts for new in operation.vectors)
    yield from operation.added_vectors.values()


def require_objects(store: Store, objects: Sequence[_Object]) -> None:
    """Reject objects that are missing in storage or have a different size."""
    _each(lambda one: _require(store, one), objects)


def _each(look: Callable[[_T], None], items: Sequence[_T]) -> None:
    if len(items) == 1:
        look(items[0])
    elif items:
        with ThreadPoolExecutor(min(_AT_ONCE, len(items))) as threads:
            for _ in threads.map(look, items):
                pass


def check_footer(store: Store, facts: SegmentFacts) -> None:
    """Reject a segment whose footer differs from its facts in rows, row groups or level."""
    try:
        with open_segment(store, facts) as source:
            data, is_sealed = read_segment_footer(source, facts.path, facts)
        footer = decode_footer(data, facts.path, is_sealed=is_sealed)
    except NotFound:
        raise _missing(facts.path) from None
    except Corrupt as error:
        raise InvalidInput(error.message) from None
    if footer.num_rows != facts.rows:
        raise InvalidInput(f"{facts.path} has {footer.num_rows} rows, not {facts.rows}.")
    check_level(footer, facts.level, facts.path)
    if facts.split_offsets and facts.split_offsets != split_offsets(footer):
        raise InvalidInput(f"The row groups of {facts.path} do not match its split offsets.")


def segment_objects(facts: SegmentFacts) -> Iterator[_Object]:
    """The objects of a segment: itself, and its key index."""
    yield facts.path, facts.size, False
    if facts.index_size:
        yield key_index_of(facts), facts.index_size, False


def named_objects(commit: TableCommit) -> Iterator[_Object]:
    """The objects that a commit adds."""
    operation = commit.operation
    if isinstance(operation, DataOperation):
        for facts in operation.added:
            yield from segment_objects(facts)
        ends: dict[str, int] = {}
        for vector in _vectors(operation):
            ends[vector.path] = max(ends.get(vector.path, 0), vector.offset + vector.length)
        yield from ((path, end, True) for path, end in ends.items())
    if isinstance(operation, Compact):
        yield from ((path, 0, True) for path in operation.journals)
    if isinstance(operation, CreateIndex | UpdateIndex | Fill):
        yield from ((file.path, file.size, False) for file in operation.files)


def _require(store: Store, one: _Object) -> None:
    path, size, more = one
    try:
        found = store.head(path).size
    except NotFound:
        raise _missing(path) from None
    if found < size or (found > size and not more):
        raise InvalidInput(f"{path} has {found} bytes, not {size}.")


def _missing(path: str) -> FailedPrecondition:
    return FailedPrecondition(f"{path} is not in storage: write files before committing them.")


def _check_key_index(state: TableState, facts: SegmentFacts) -> None:
    """Without a key index, writers would not find the keys of the segment, and a key could be duplicated."""
    keyed = bool(state.schema.identifier_field_ids)
    if facts.rows and keyed != bool(facts.index_size):
        raise InvalidInput(
            f"{facts.path} {'lacks' if keyed else 'has'} a key index: segments of keyed tables have one, others do not."
        )
    if facts.region and not keyed:
        raise InvalidInput(f"{facts.path} has region {facts.region}, but only keyed tables have regions.")


def check_fits(state: TableState, facts: SegmentFacts) -> None:
    """Reject facts whose bounds or partition do not have the table's types."""
    where = f"segment {facts.number} of {state.full_name}"
    schema, spec = state.schemas.get(facts.schema_id), state.specs.get(facts.spec_id)
    if schema is None or spec is None:
        raise InvalidInput(f"The schema or partitioning of {where} is not one of the table.")
    for column in facts.columns:
        field = schema.find_column_name(column.field_id)
        if field is None:
            raise InvalidInput(f"{where} has facts of field {column.field_id}, which its schema does not have.")
        _check_bounds(schema.find_type(column.field_id), column, where)
    try:
        decode_partition(spec, schema, facts.partition)
    except (Corrupt, ValueError, OverflowError) as error:
        raise InvalidInput(f"The partition of {where} does not fit: {error}") from None


def _check_bounds(kind: object, column: ColumnFacts, where: str) -> None:
    bounds = [bound for bound in (column.lower, column.upper) if bound is not None]
    if bounds and not isinstance(kind, PrimitiveType):
        raise InvalidInput(f"Field {column.field_id} of {where} is of type {kind}, which has no bounds.")
    for bound in bounds:
        try:
            bound_from_bytes(kind, bound)  # type: ignore[arg-type]
        except (Corrupt, ValueError, OverflowError) as error:
            raise InvalidInput(f"A bound of field {column.field_id} of {where} does not fit: {error}") from None
