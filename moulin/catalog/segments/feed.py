"""The feed of a table between two versions: the segments that came, went, or got another deletion vector.

Cost follows what changed since the older of the two versions, never how large the table is. Each read is one short
snapshot. What lies between two kept versions never changes, so a range may be read in several of them; each one checks
again that clean-up has not passed the range.
"""

# Decisions: docs/decisions/0206

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import tables
from moulin.catalog.objects.history import EXPIRED
from moulin.catalog.segments import live as segments
from moulin.catalog.segments.bases import base_level
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import Pool
from moulin.catalog.sql.prepared import Prepared
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.names import full_name
from moulin.model.operations import Kind

_VERSIONS = 128  # versions looked at in one snapshot
_SPANS = 4096  # spans asked for in one snapshot, when that is more than one version
_SILENT = {
    tables.CREATE,
    Kind.COMPACT,
    Kind.ALTER_SCHEMA,
    Kind.SET_PROPERTIES,
    Kind.SET_PARTITIONING,
    Kind.SET_SORT_ORDER,
    Kind.CREATE_INDEX,
    Kind.UPDATE_INDEX,
    Kind.DROP_INDEX,
    Kind.FILL,
}
_FIGURES = ("added-data-files", "deleted-data-files", "changed-deletion-vectors")


@dataclass(frozen=True, slots=True)
class FeedSegment:
    """A segment before and after; None if it is not live. They may differ only in the deletion vector."""

    before: LiveSegment | None
    after: LiveSegment | None


@dataclass(frozen=True, slots=True)
class CommitNumbers:
    """The sequence number, version and time of a commit that changed rows."""

    sequence: int
    version: int
    timestamp_ns: int


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """The segments that differ between a version and an older one, by default the one before.

    `next_row_id` was free at the older one: rows with a smaller id may have been there. `commits` are those in between,
    ascending; only an entry over several versions has any.
    """

    version: int
    timestamp_ns: int
    next_row_id: int
    segments: tuple[FeedSegment, ...]
    commits: tuple[CommitNumbers, ...] = ()


def load_until(connection: sa.Connection, table_id: UUID, since: int, until: int | None) -> TableState:
    """The table at `until` (None: the newest version). Refuses a range that is not kept, or not there."""
    row = tables.find_by_id(connection, table_id)
    last = row.lake_version if until is None else until
    require_range(connection, row, since, last)
    return tables.load(connection, row, last)


_GAPS = Prepared(
    sa.select(s.incarnations.c.continues_from, s.incarnations.c.first_version).where(
        s.incarnations.c.first_version > sa.bindparam("since")
    )
)


def require_range(connection: sa.Connection, row: Any, since: int, until: int) -> None:
    """Refuse a range of versions of a table (a row of `find_by_id`) whose changes are not all known."""
    name = full_name(row.database, row.name)
    if until > row.lake_version or since > row.lake_version:
        missing = max(since, until)
        raise InvalidInput(f"Version {missing} does not exist yet; the lake is at {row.lake_version}.")
    if since > until:
        raise InvalidInput(f"Changes since version {since} cannot end at the older version {until}.")
    if since < row.created_version:
        raise InvalidInput(
            f"Table {name} was created at version {row.created_version}, after version {since}: read changes since "
            f"version {max(row.created_version, row.oldest_version)}."
        )
    if since < row.oldest_version:
        raise FailedPrecondition(
            f"The changes of {name} since version {since} were cleaned up; the oldest possible since is "
            f"{row.oldest_version}. Read the rows of that version with at(version={row.oldest_version})."
        )
    gaps = _GAPS.all(connection, {"since": since})
    for version in (since, until):
        if lost := next((gap for gap in gaps if gap.continues_from < version < gap.first_version), None):
            raise FailedPrecondition(
                f"Version {version} was lost with an earlier catalog; the lake was recovered to version "
                f"{lost.continues_from}. Undo the changes after that version, and read changes since "
                f"{lost.continues_from}."
            )


def changed_versions(
    connection: sa.Connection, table_id: UUID, since: int, until: int, limit: int | None = None
) -> list[int]:
    """The versions in (since, until] that are commits of a table, ascending; at most `limit`."""
    c = s.table_commits
    query = sa.select(c.c.version).distinct().where(c.c.table_id == table_id, c.c.version > since, c.c.version <= until)
    query = query.order_by(c.c.version)
    return list(connection.execute(query if limit is None else query.limit(limit)).scalars())


def each_version(pool: Pool, table_id: UUID, since: int, until: int) -> Iterator[FeedEntry]:
    """Versions in (since, until] that may have changed rows, ascending. Compactions and settings change none."""
    while since < until:
        with pool.read() as connection:
            row = tables.find_by_id(connection, table_id)
            require_range(connection, row, since, until)
            found, reached = _loud_commits(connection, row, since, until)
            spans = _touched(connection, table_id, since, reached) if found else []
        numbers: dict[int, set[int]] = {}
        for span in spans:
            for version in (span.added_version, span.removed_version):
                numbers.setdefault(version, set()).add(span.segment)
        for commit in found:
            with pool.read() as connection:
                require_range(connection, tables.find_by_id(connection, table_id), since, until)
                pairs = _pairs(
                    connection, table_id, numbers.get(commit.version, ()), commit.version - 1, commit.version
                )
            if pairs:
                yield FeedEntry(commit.version, commit.timestamp_ns, commit.first_row_id, pairs)
        since = reached


def kinds(pool: Pool, table_id: UUID, since: int, until: int) -> dict[int, frozenset[str]]:
    """The kinds of operation of each version in (since, until] that is a commit of the table, ascending."""
    c = s.table_commits
    found: dict[int, set[str]] = {}
    with pool.read() as connection:
        row = tables.find_by_id(connection, table_id)
        require_range(connection, row, since, until)
        query = sa.select(c.c.version, c.c.kind).where(c.c.table_id == table_id, c.c.version > since)
        for version, kind in connection.execute(query.where(c.c.version <= until).order_by(c.c.version)):
            if kind == EXPIRED:
                raise _no_longer_known(row, version)
            found.setdefault(version, set()).add(kind)
    return {version: frozenset(several) for version, several in found.items()}


def added(pool: Pool, table_id: UUID, versions: Collection[int]) -> list[LiveSegment]:
    """The segments that appends at these versions added, as they came: also those that are gone since.

    Refuses those that came with deleted rows, as engines may add them.
    """
    if not versions:
        return []
    since, until = min(versions) - 1, max(versions)
    with pool.read() as connection:
        row = tables.find_by_id(connection, table_id)
        require_range(connection, row, since, until)
        spans = _touched(connection, table_id, since, until)
        came = {span.segment: span.added_version for span in spans if span.added_version in versions}
        found = segments.with_vectors(connection, table_id, dict.fromkeys(came, 0))
    for segment in found:
        del came[segment.facts.number]
    if came:
        raise FailedPrecondition(
            f"Version {min(came.values())} added files to {full_name(row.database, row.name)} of which rows were "
            "deleted at once: read the changes of that version instead of its files."
        )
    return found


def _later() -> Prepared:
    """Sequence numbers of a table after one, with the version and time of each."""
    c, wanted = s.table_commits, sa.bindparam
    version, stamp = sa.func.min(c.c.version).label("version"), sa.func.min(c.c.timestamp_ns).label("timestamp_ns")
    return Prepared(
        sa.select(c.c.sequence, version, stamp)
        .where(c.c.table_id == wanted("table_id"), c.c.version > wanted("since"), c.c.version <= wanted("until"))
        .where(c.c.sequence > wanted("sequence"))
        .group_by(c.c.sequence)
        .order_by(c.c.sequence)
    )


_LATER = _later()
_STAMP = Prepared(
    sa.select(s.versions.c.timestamp_ns)
    .where(s.versions.c.version <= sa.bindparam("until"))
    .order_by(s.versions.c.version.desc())
    .limit(1)
)


def net(pool: Pool, table_id: UUID, since: int, until: int) -> FeedEntry:
    """The state at `until` against the one at `since`, whatever lies between."""
    within = {"table_id": table_id, "since": since, "until": until}
    with pool.read() as connection:
        row = tables.find_by_id(connection, table_id)
        require_range(connection, row, since, until)
        sequence, next_row_id = tables.numbers_at(connection, row, since)
        pairs = net_pairs(connection, table_id, since, until)
        later = _LATER.all(connection, {**within, "sequence": sequence})
        commits = tuple(_filled(sequence, later))
        (stamp,) = _STAMP.first(connection, {"until": until})
    return FeedEntry(until, stamp, next_row_id, pairs, commits)


def _filled(last: int, rows: Iterable[Any]) -> Iterator[CommitNumbers]:
    """Commits by sequence number. A publish takes several numbers at once: those before its own are its, too."""
    for sequence, version, timestamp_ns in rows:
        yield from (CommitNumbers(number, version, timestamp_ns) for number in range(last + 1, sequence + 1))
        last = sequence


def net_pairs(connection: sa.Connection, table_id: UUID, since: int, until: int) -> tuple[FeedSegment, ...]:
    """The segments that differ between two versions of a table."""
    spans = _touched(connection, table_id, since, until)
    older = {span.segment for span in spans if span.added_version <= since}
    return _pairs(connection, table_id, {span.segment for span in spans}, since, until, older)


@dataclass(slots=True)
class _Commit:
    """One version of the table: when, the next free row id before it, and about how many spans it touched."""

    version: int
    timestamp_ns: int
    first_row_id: int
    kinds: set[str]
    spans: int


def _loud_commits(connection: sa.Connection, row: Any, since: int, until: int) -> tuple[list[_Commit], int]:
    """The next versions that may have changed rows, and the version up to which all are in this list."""
    c = s.table_commits
    versions = changed_versions(connection, row.id, since, until, _VERSIONS)
    if not versions:
        return [], until
    query = sa.select(c).where(c.c.table_id == row.id, c.c.version > since, c.c.version <= versions[-1])
    found: dict[int, _Commit] = {}
    for r in connection.execute(query.order_by(c.c.version, c.c.ordinal)):
        if r.kind == EXPIRED:
            raise _no_longer_known(row, r.version)
        commit = found.setdefault(r.version, _Commit(r.version, r.timestamp_ns, r.first_row_id, set(), 0))
        commit.kinds.add(r.kind)
        commit.spans += sum(int(r.summary.get(figure, 0)) for figure in _FIGURES)
    taken: list[_Commit] = []
    spans = 0
    for commit in found.values():
        if commit.kinds <= _SILENT:
            continue
        spans += commit.spans
        if taken and spans > _SPANS:
            return taken, taken[-1].version
        taken.append(commit)
    return taken, versions[-1] if len(versions) == _VERSIONS else until


def _no_longer_known(row: Any, version: int) -> FailedPrecondition:
    return FailedPrecondition(
        f"The changes of version {version} in {full_name(row.database, row.name)} are no longer known; the oldest "
        f"possible since is {row.oldest_version}, or read net changes."
    )


def _touched(connection: sa.Connection, table_id: UUID, since: int, until: int) -> list[Any]:
    """Spans that opened or closed in (since, until].

    The index `spans_removed` answers all three questions: what closed, what opened and is open, what opened and closed
    later. Only ranges, no lists of versions: SQLite would rather scan than look each of them up.
    """
    rows = _TOUCHED.all(connection, {"table_id": table_id, "since": since, "until": until})
    found = {row.id: row for row in rows}
    masked = _masked(connection, table_id, since, until) if base_level(connection, table_id, 0) else []
    return [*found.values(), *masked]


def _touching() -> Prepared:
    p = s.segment_spans
    since: sa.BindParameter[int] = sa.bindparam("since")
    until: sa.BindParameter[int] = sa.bindparam("until")

    def within(column: sa.Column[int]) -> sa.ColumnElement[bool]:
        return sa.and_(column > since, column <= until)

    closed_later = sa.and_(p.c.removed_version > since, p.c.removed_version < s.OPEN)
    conditions = (
        within(p.c.removed_version),
        sa.and_(p.c.removed_version == s.OPEN, within(p.c.added_version)),
        sa.and_(closed_later, within(p.c.added_version)),
    )
    query = sa.select(p.c.id, p.c.segment, p.c.added_version, p.c.removed_version)
    mine = query.where(p.c.table_id == sa.bindparam("table_id"))
    return Prepared(sa.union_all(*(mine.where(condition) for condition in conditions)))


_TOUCHED = _touching()


def _masked(connection: sa.Connection, table_id: UUID, since: int, until: int) -> list[Any]:
    """Masks that came in (since, until], as spans that were there since the table was made and closed then."""
    m, t = s.span_masks, s.tables
    query = sa.select(
        m.c.segment, t.c.created_version.label("added_version"), m.c.added_version.label("removed_version")
    )
    query = query.join(t, t.c.id == m.c.table_id).where(m.c.table_id == table_id)
    return list(connection.execute(query.where(m.c.added_version > since, m.c.added_version <= until)))


def _pairs(
    connection: sa.Connection,
    table_id: UUID,
    numbers: Iterable[int],
    before: int,
    after: int,
    older: Collection[int] | None = None,
) -> tuple[FeedSegment, ...]:
    """The segments as two versions see them, where that differs, in order of their numbers.

    `older` are those that may have been live before, by default any.
    """
    wanted = sorted(numbers)
    old = segments.by_number(connection, table_id, wanted if older is None else sorted(older), before)
    new = segments.by_number(connection, table_id, wanted, after)
    pairs = (FeedSegment(old.get(number), new.get(number)) for number in wanted)
    return tuple(pair for pair in pairs if _vector(pair.before) != _vector(pair.after))


def _vector(segment: LiveSegment | None) -> int | None:
    """The state of a segment for comparison: None if it is not live, else its vector."""
    if segment is None:
        return None
    return segment.vector.id if segment.vector else 0
