"""The commit: check what an operation expects, apply it, and number it. Called under the counter's lock; SQL only.

Cost follows what the operation touches, never how large the table is. What the operation expects is checked span by span; when it
no longer holds, the verdict of `model.operations` on what was committed meanwhile says what the caller may do about it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin._proto.moulin.format.v1 import manifest_pb2 as pb
from moulin.catalog import restore, settings, tables
from moulin.catalog import schema as s
from moulin.catalog.draft import Draft
from moulin.catalog.segments import encode_partition, time_class
from moulin.errors import Conflict, InvalidInput
from moulin.formats import manifest as codec
from moulin.model.facts import LiveSegment, SegmentFacts, VectorFacts
from moulin.model.ids import new_snapshot_id
from moulin.model.operations import (
    DataOperation,
    Expected,
    Kind,
    Merge,
    Operation,
    Overwrite,
    Restore,
    Verdict,
    strongest,
    verdict,
)


@dataclass(frozen=True, slots=True)
class TableCommit:
    """One operation on one table, prepared from what `read_version` showed."""

    table_id: UUID
    read_version: int
    operation: Operation
    summary: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommitResult:
    """`replayed` says that the request id had been committed before, as `version`; nothing was done now."""

    version: int
    timestamp_ns: int
    replayed: bool = False


class Stale(Conflict):
    """What the operation expected no longer holds. `verdict` says whether a rebase or another try can help."""

    def __init__(self, message: str, verdict: Verdict, **detail: Any) -> None:
        super().__init__(message, **detail)
        self.verdict = verdict


class TableChange:
    """One table of the version being committed: its row, its manifest, and the sums that the row keeps."""

    def __init__(self, draft: Draft, commit: TableCommit) -> None:
        self.draft = draft
        self.connection = draft.connection
        self.commit = commit
        self.row = tables.find_by_id(draft.connection, commit.table_id)
        self.name = f"{self.row.database}.{self.row.name}"
        self.manifest = draft.table(commit.table_id)
        self.updates: dict[str, Any] = {}
        self.added_rows = 0
        self.summary: dict[str, str] = dict(commit.summary)

    @property
    def table_id(self) -> UUID:
        return self.commit.table_id

    def since(self) -> list[Any]:
        """What was committed to the table after the operation's read version."""
        c = s.table_commits
        query = sa.select(c).where(
            c.c.table_id == self.table_id, c.c.version > self.commit.read_version, c.c.version < self.draft.version
        )
        return list(self.connection.execute(query.order_by(c.c.version, c.c.ordinal)))

    def stale(self, requirement: str, expected: object, found: object) -> Stale:
        """The error for something that is no longer as it was read."""
        kind = self.commit.operation.kind
        meetings = [(verdict(kind, Kind(row.kind)), row) for row in self.since() if row.kind != tables.CREATE]
        decision = strongest([outcome for outcome, _ in meetings])
        if decision is Verdict.COMMUTES:
            decision = Verdict.CONFLICT
        winner = next((row for outcome, row in meetings if outcome is decision), None)
        by = f" by the {winner.kind} of version {winner.version}" if winner else ""
        return Stale(
            f"The {kind} of {self.name} lost a race: {requirement} was expected to be {expected} and is {found}{by}. "
            "Read the table again and retry.",
            decision,
            requirement=requirement,
            expected=expected,
            found=found,
            winner=winner.version if winner else None,
        )

    def add(self, **sums: int) -> None:
        """Add to sums kept in the table's row."""
        for name, amount in sums.items():
            self.updates[name] = self.updates.get(name, getattr(self.row, name)) + amount


def apply(draft: Draft, commits: Sequence[TableCommit]) -> None:
    """Apply all operations as one version, or raise and leave nothing."""
    ordinals: dict[UUID, int] = {}
    first_ids: dict[UUID, int] = {}
    for commit in commits:
        ordinal = ordinals.get(commit.table_id, -1) + 1
        ordinals[commit.table_id] = ordinal
        change = TableChange(draft, commit)
        first_row_id = change.row.next_row_id
        if ordinal == 0:
            first_ids[commit.table_id] = new_snapshot_id()
            change.add(deltas=1)
            change.updates["head_version"] = draft.version
            if isinstance(commit.operation, DataOperation | Restore):
                change.add(last_sequence=1)
        match commit.operation:
            case DataOperation():
                _apply_data(change, commit.operation)
            case Restore():
                restore.apply_restore(change, commit.operation)
            case _:
                settings.apply_setting(change, commit.operation)
        draft.connection.execute(s.tables.update().where(s.tables.c.id == change.table_id).values(change.updates))
        tables.record_commit(
            draft,
            change.table_id,
            ordinal,
            commit.operation.kind.value,
            first_ids[commit.table_id],
            first_row_id,
            change.added_rows,
            change.summary,
            properties_changed="properties" in change.updates,
        )
    for table_id in ordinals:
        tables.finish_manifest(draft, table_id)


def _apply_data(change: TableChange, operation: DataOperation) -> None:
    expected = [*operation.removed, *(vector.expected for vector in operation.vectors)]
    if len({e.segment for e in expected}) != len(expected):
        raise InvalidInput("An operation may touch each segment once.")
    spans = _expected_spans(change, expected)
    _remove(change, [spans[e.segment] for e in operation.removed])
    if isinstance(operation, Overwrite) and operation.everything:
        _remove(change, list(open_spans(change)))
    _replace_vectors(change, [(spans[v.expected.segment], v.facts) for v in operation.vectors])
    _add(change, operation.added, operation.added_vectors)
    if isinstance(operation, Merge):
        _record_merge(change, operation)


def open_spans(change: TableChange, numbers: Iterable[int] | None = None) -> Iterator[Any]:
    """Open spans of the table with what the sums need, all or those of the segments `numbers`."""
    p, g, d = s.segment_spans, s.segments, s.deletion_vectors
    query = (
        sa.select(p, g.c.path, g.c.rows, g.c.size, sa.func.coalesce(d.c.cardinality, 0).label("deleted"))
        .select_from(p.join(g, g.c.number == p.c.segment).join(d, d.c.id == p.c.vector_id, isouter=True))
        .where(p.c.table_id == change.table_id, p.c.branch == s.MAIN, p.c.removed_version == s.OPEN)
    )
    if numbers is None:
        yield from change.connection.execute(query).all()
        return
    wanted = list(numbers)
    for start in range(0, len(wanted), 500):
        yield from change.connection.execute(query.where(p.c.segment.in_(wanted[start : start + 500]))).all()


def _expected_spans(change: TableChange, expected: Sequence[Expected]) -> dict[int, Any]:
    spans = {row.segment: row for row in open_spans(change, [e.segment for e in expected])}
    for e in expected:
        span = spans.get(e.segment)
        if span is None:
            raise change.stale(f"segment {e.segment}", "live", "gone")
        if span.vector_id != e.vector_id:
            raise change.stale(f"the deletion vector of segment {e.segment}", e.vector_id, span.vector_id)
    return spans


def _close(change: TableChange, spans: Sequence[Any]) -> None:
    ids = [span.id for span in spans]
    for start in range(0, len(ids), 500):
        change.connection.execute(
            s.segment_spans.update()
            .where(s.segment_spans.c.id.in_(ids[start : start + 500]))
            .values(removed_version=change.draft.version)
        )


def _remove(change: TableChange, spans: Sequence[Any]) -> None:
    if not spans:
        return
    _close(change, spans)
    for span in spans:
        change.manifest.data_files.append(pb.DataFileRef(path=span.path, number=span.segment, status=codec.DELETED))
    rows = sum(span.rows - span.deleted for span in spans)
    change.add(segments=-len(spans), rows=-rows, bytes=-sum(span.size for span in spans))
    _count(change, "deleted-data-files", len(spans))
    _count(change, "deleted-records", rows)


def _replace_vectors(change: TableChange, vectors: Sequence[tuple[Any, VectorFacts]]) -> None:
    if not vectors:
        return
    stored = store_vectors(change, [facts for _, facts in vectors])
    _close(change, [span for span, _ in vectors])
    reopened = []
    for (span, _), vector in zip(vectors, stored, strict=True):
        if not span.deleted < vector.cardinality <= span.rows:
            raise InvalidInput(
                f"A deletion vector with {vector.cardinality} positions cannot follow one with {span.deleted} "
                f"on segment {span.segment} of {span.rows} rows."
            )
        reopened.append(span_row(change, span.segment, vector.id, span.partition_id, span.time_class, span.time_min))
        ref = pb.DataFileRef(path=span.path, number=span.segment, status=codec.EXISTING, dv_version=change.draft.version)
        codec.set_vector(ref, vector)
        change.manifest.data_files.append(ref)
    change.connection.execute(s.segment_spans.insert(), reopened)
    rows = sum(vector.cardinality - span.deleted for (span, _), vector in zip(vectors, stored, strict=True))
    change.add(rows=-rows)
    _count(change, "deleted-records", rows)
    _count(change, "changed-deletion-vectors", len(vectors))


def span_row(
    change: TableChange, segment: int, vector_id: int, partition_id: int, time_class: int, time_min: int
) -> dict[str, Any]:
    """A span that opens with this version."""
    return {
        "table_id": change.table_id,
        "branch": s.MAIN,
        "segment": segment,
        "vector_id": vector_id,
        "added_version": change.draft.version,
        "removed_version": s.OPEN,
        "partition_id": partition_id,
        "time_class": time_class,
        "time_min": time_min,
    }


def store_vectors(change: TableChange, vectors: Sequence[VectorFacts]) -> list[VectorFacts]:
    """Number deletion vectors and keep them."""
    first = take(change.connection, "vector", len(vectors))
    stored = [
        VectorFacts(first + place, v.segment, v.path, v.offset, v.length, v.cardinality)
        for place, v in enumerate(vectors)
    ]
    change.connection.execute(
        s.deletion_vectors.insert(),
        [
            {
                "id": v.id,
                "table_id": change.table_id,
                "segment": v.segment,
                "path": v.path,
                "offset": v.offset,
                "length": v.length,
                "cardinality": v.cardinality,
                "added_version": change.draft.version,
            }
            for v in stored
        ],
    )
    return stored


def take(connection: sa.Connection, name: str, count: int) -> int:
    """Numbers from a reserve, inside the running transaction; returns the first."""
    row = s.reserves.c.name == name
    connection.execute(s.reserves.update().where(row).values(next=s.reserves.c.next + count))
    return int(connection.execute(sa.select(s.reserves.c.next).where(row)).scalar_one()) - count


def _add(change: TableChange, added: Sequence[SegmentFacts], vectors: Mapping[int, VectorFacts]) -> None:
    if not added:
        return
    version, sequence = change.draft.version, change.updates.get("last_sequence", change.row.last_sequence)
    stored = dict(zip(vectors, store_vectors(change, list(vectors.values())), strict=True)) if vectors else {}
    places = _partition_ids(change, added)
    first_row_id = change.updates.get("next_row_id", change.row.next_row_id)
    classes = change.updates.get("time_classes", change.row.time_classes)
    segment_rows, span_rows = [], []
    for facts in added:
        live = LiveSegment(facts, first_row_id, sequence, version, stored.get(facts.number))
        ref = codec.segment_to_ref(live, codec.ADDED)
        change.manifest.data_files.append(ref)
        place = places[facts.spec_id, facts.partition]
        segment_rows.append(segment_row(change.table_id, live, ref, place))
        k = time_class(facts.time_min, facts.time_max)
        classes |= 1 << k if k >= 0 else 0
        span_rows.append(
            span_row(change, facts.number, live.vector.id if live.vector else 0, place, k, facts.time_min or 0)
        )
        first_row_id += facts.rows
    change.connection.execute(s.segments.insert(), segment_rows)
    change.connection.execute(s.segment_spans.insert(), span_rows)
    rows = sum(facts.rows for facts in added)
    live_rows = rows - sum(vector.cardinality for vector in stored.values())
    change.updates["next_row_id"], change.updates["time_classes"] = first_row_id, classes
    change.add(segments=len(added), rows=live_rows, bytes=sum(facts.size for facts in added))
    change.added_rows += rows
    _count(change, "added-data-files", len(added))
    _count(change, "added-records", live_rows)
    _count(change, "added-files-size", sum(facts.size for facts in added))


def segment_row(table_id: UUID, live: LiveSegment, ref: pb.DataFileRef, partition_id: int) -> dict[str, Any]:
    """The row of a segment; `ref` is its reference in the manifest."""
    facts = live.facts
    return {
        "number": facts.number,
        "table_id": table_id,
        "path": facts.path,
        "rows": facts.rows,
        "size": facts.size,
        "level": facts.level,
        "schema_id": facts.schema_id,
        "partition_id": partition_id,
        "sort_order_id": facts.sort_order_id,
        "sha256": facts.sha256,
        "facts": ref.columns.SerializeToString(deterministic=True),
        "time_min": facts.time_min,
        "time_max": facts.time_max,
        "has_lineage": facts.has_lineage,
        "seq_min": ref.seq_min,
        "seq_max": ref.seq_max,
        "key_min": facts.key_min,
        "key_max": facts.key_max,
        "first_row_id": live.first_row_id,
        "sequence": live.sequence,
        "added_version": live.added_version,
    }


def _partition_ids(
    change: TableChange, added: Sequence[SegmentFacts]
) -> dict[tuple[int, tuple[bytes | None, ...]], int]:
    wanted = {(facts.spec_id, facts.partition) for facts in added}
    return {key: partition_id(change.connection, change.table_id, *key) for key in wanted}


def partition_id(connection: sa.Connection, table_id: UUID, spec_id: int, values: tuple[bytes | None, ...]) -> int:
    """The number of a partition of a table, given one when new."""
    p = s.partitions
    stored = encode_partition(values)
    key = sa.and_(p.c.table_id == table_id, p.c.spec_id == spec_id, p.c.tuple == stored)
    found = connection.execute(sa.select(p.c.id).where(key)).scalar_one_or_none()
    if found is None:
        connection.execute(p.insert().values(table_id=table_id, spec_id=spec_id, tuple=stored))
        found = connection.execute(sa.select(p.c.id).where(key)).scalar_one()
    return int(found)


def _record_merge(change: TableChange, operation: Merge) -> None:
    version = change.draft.version
    inputs = [e.segment for e in operation.removed]
    change.connection.execute(
        s.merge_inputs.insert(),
        [{"segment": number, "version": version, "table_id": change.table_id} for number in inputs],
    )
    if operation.journals:
        change.connection.execute(
            s.journals.insert(),
            [{"path": path, "table_id": change.table_id, "version": version} for path in operation.journals],
        )
    for start in range(0, len(inputs), 500):
        change.connection.execute(
            s.reservations.delete().where(s.reservations.c.segment.in_(inputs[start : start + 500]))
        )
    change.manifest.journals.extend(operation.journals)
    change.manifest.merge_inputs.extend(inputs)


def _count(change: TableChange, key: str, amount: int) -> None:
    if amount:
        change.summary[key] = str(int(change.summary.get(key, "0")) + amount)


def summary_keys(summary: Mapping[str, str]) -> set[str]:
    """The property names that a set-properties commit touched."""
    return set(json.loads(summary.get("keys", "[]")))
