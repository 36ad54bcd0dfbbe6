"""What another process says it wrote, compared with storage and with the table, before its commit takes the lock.

Writers in this process describe files that they have just closed. One behind a server may describe anything: a commit
that names a file which is not there would be a lost file, and bounds of another type would break every scan.
The cost is one look at each new object, several at a time, and none at those that are committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from pyiceberg.types import PrimitiveType

from moulin.catalog import arrivals
from moulin.catalog.catalog import Catalog
from moulin.catalog.commit import TableCommit
from moulin.errors import Corrupt, FailedPrecondition, InvalidInput, NotFound
from moulin.model.bounds import bound_from_bytes
from moulin.model.entities import TableState
from moulin.model.facts import ColumnFacts, SegmentFacts
from moulin.model.operations import CreateIndex, DataOperation, Merge, UpdateIndex
from moulin.model.partition import decode_partition
from moulin.storage import paths
from moulin.storage.store import Store

_AT_ONCE = 16

# A path, the bytes that it must have, and whether it may have more.
_Object = tuple[str, int, bool]


def require_delivered(catalog: Catalog, commits: Sequence[TableCommit]) -> None:
    """Refuse commits that name objects which storage does not have, or that do not fit their table."""
    states: dict[UUID, TableState] = {}
    for commit in commits:
        arrivals.check(commit)
        operation = commit.operation
        if isinstance(operation, DataOperation) and operation.added:
            if commit.table_id not in states:
                states[commit.table_id] = catalog.table_by_id(commit.table_id)
            for facts in operation.added:
                _check_key_index(states[commit.table_id], facts)
                check_fits(states[commit.table_id], facts)
    require_objects(catalog.store, [one for commit in commits for one in named_objects(commit)])


def require_objects(store: Store, objects: Sequence[_Object]) -> None:
    """Refuse objects that are not in storage, or have another size."""
    if len(objects) <= 1:
        for one in objects:
            _require(store, one)
        return
    with ThreadPoolExecutor(min(_AT_ONCE, len(objects))) as threads:
        for _ in threads.map(lambda one: _require(store, one), objects):
            pass


def segment_objects(facts: SegmentFacts) -> Iterator[_Object]:
    """The objects of a segment: itself, and its key index."""
    yield facts.path, facts.size, False
    if facts.index_size:
        yield paths.key_index_path(facts.path), facts.index_size, False


def named_objects(commit: TableCommit) -> Iterator[_Object]:
    """The objects that a commit brings."""
    operation = commit.operation
    if isinstance(operation, DataOperation):
        for facts in operation.added:
            yield from segment_objects(facts)
        ends: dict[str, int] = {}
        for vector in (*(new.facts for new in operation.vectors), *operation.added_vectors.values()):
            ends[vector.path] = max(ends.get(vector.path, 0), vector.offset + vector.length)
        yield from ((path, end, True) for path, end in ends.items())
    if isinstance(operation, Merge):
        yield from ((path, 0, True) for path in operation.journals)
    if isinstance(operation, CreateIndex | UpdateIndex):
        yield from ((file.path, file.size, False) for file in operation.files)


def _require(store: Store, one: _Object) -> None:
    path, size, more = one
    try:
        found = store.head(path).size
    except NotFound:
        raise FailedPrecondition(f"{path} is not in storage; write files before the commit that names them.") from None
    if found < size or (found > size and not more):
        raise InvalidInput(f"{path} has {found} bytes, not {size}.")


def _check_key_index(state: TableState, facts: SegmentFacts) -> None:
    """Without its key index a segment would hide from writers that look for a key, and a key could be there twice."""
    keyed = bool(state.schema.identifier_field_ids)
    if facts.rows and keyed != bool(facts.index_size):
        raise InvalidInput(
            f"{facts.path} {'lacks' if keyed else 'has'} a key index: segments of keyed tables have one, others do not."
        )


def check_fits(state: TableState, facts: SegmentFacts) -> None:
    """Refuse facts whose bounds or partition are not of the table's types."""
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
