"""Is everything as the catalog says? Named invariants of its rows, and every file of every kept version against its
facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.identity import read_marker
from moulin.catalog.manifests.index import ManifestIndex
from moulin.catalog.segments.bases import in_level, levels
from moulin.catalog.sql import schema as s
from moulin.catalog.upkeep.published import published_line
from moulin.catalog.upkeep.verification import KnownFile, adopted_files, known_files, projection_files
from moulin.errors import MoulinError, NotFound
from moulin.formats.segment.opened import read_segment_footer
from moulin.model.facts import SegmentFacts
from moulin.storage import paths
from moulin.storage.segment_source import open_segment


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem: the violated rule, its place, and what was found."""

    rule: str
    where: str
    found: str


Progress = Callable[[int, int], None]


def check(catalog: Catalog, *, data: bool = True, progress: Progress | None = None) -> list[Finding]:
    """Check a lake; `data` also reads every byte of every file. `progress(done, all)` counts files."""
    findings: list[Finding] = []
    with catalog.pool.read() as connection:
        for invariant in INVARIANTS:
            findings.extend(invariant(connection))
        files = [*known_files(connection), *projection_files(connection), *adopted_files(connection)]
    for done, file in enumerate(files, start=1):
        findings.extend(_check_file(catalog, file, data))
        if progress:
            progress(done, len(files))
    findings.extend(_check_marker(catalog))
    findings.extend(_check_manifests(catalog))
    return findings


# Invariants of the rows. Each yields violations.


def one_open_span(connection: sa.Connection) -> Iterator[Finding]:
    p = s.segment_spans
    query = (
        sa.select(p.c.segment, sa.func.count())
        .where(p.c.removed_version == s.OPEN)
        .group_by(p.c.table_id, p.c.segment)
        .having(sa.func.count() > 1)
    )
    for segment, count in connection.execute(query):
        yield Finding("a segment is live once", f"segment {segment}", f"{count} open spans")


def spans_run_forward(connection: sa.Connection) -> Iterator[Finding]:
    p = s.segment_spans
    for row in connection.execute(sa.select(p).where(p.c.removed_version < p.c.added_version)):
        yield Finding(
            "a span ends after it begins", f"segment {row.segment}", f"{row.added_version} to {row.removed_version}"
        )


def vectors_are_there(connection: sa.Connection) -> Iterator[Finding]:
    p, d = s.segment_spans, s.deletion_vectors
    query = (
        sa.select(p.c.segment, p.c.vector_id)
        .join(d, sa.and_(d.c.id == p.c.vector_id, d.c.segment == p.c.segment), isouter=True)
        .where(p.c.vector_id != 0, d.c.id.is_(None))
    )
    for row in connection.execute(query):
        yield Finding("a span's vector is known", f"segment {row.segment}", f"vector {row.vector_id} is missing")


def column_files_are_there(connection: sa.Connection) -> Iterator[Finding]:
    p, c, f = s.segment_spans, s.column_sets, s.column_files
    lost = sa.select(p.c.segment, p.c.columns_id).where(
        p.c.columns_id != 0, ~sa.exists().where(c.c.id == p.c.columns_id, c.c.segment == p.c.segment)
    )
    for row in connection.execute(lost):
        yield Finding("a span's column files are known", f"segment {row.segment}", f"set {row.columns_id} is missing")
    joined = c.join(f, f.c.path == c.c.path, isouter=True)
    wrong = sa.or_(f.c.path.is_(None), f.c.segment != c.c.segment)
    for row in connection.execute(sa.select(c.c.id, c.c.path).select_from(joined).where(wrong)):
        yield Finding("a set has column files of its segment", row.path, f"set {row.id}")


def sums_are_right(connection: sa.Connection) -> Iterator[Finding]:
    p, g, d, t = s.segment_spans, s.segments, s.deletion_vectors, s.tables
    sums = sa.select(
        p.c.table_id,
        sa.func.count().label("segments"),
        sa.func.sum(g.c.rows - sa.func.coalesce(d.c.cardinality, 0)).label("rows"),
        sa.func.sum(g.c.size).label("bytes"),
    ).select_from(p.join(g, g.c.number == p.c.segment).join(d, d.c.id == p.c.vector_id, isouter=True))
    live = sums.where(p.c.removed_version == s.OPEN).group_by(p.c.table_id).subquery()
    query = sa.select(t, live.c.segments.label("s"), live.c.rows.label("r"), live.c.bytes.label("b")).join(
        live, live.c.table_id == t.c.id, isouter=True
    )
    for row in connection.execute(query):
        kept, found = (row.segments, row.rows, row.bytes), (row.s or 0, row.r or 0, row.b or 0)
        if row.base_id is not None:
            base = levels(row, s.OPEN)[1]
            more = connection.execute(sums.where(*in_level(p, base)).group_by(p.c.table_id)).first()
            found = found if more is None else (found[0] + more[1], found[1] + more[2], found[2] + more[3])
        if kept != tuple(int(value) for value in found):
            yield Finding("a table's sums are those of its live segments", f"table {row.name}", f"{kept}, not {found}")


def row_ids_are_disjoint(connection: sa.Connection) -> Iterator[Finding]:
    g, p = s.segments, s.segment_spans
    query = (
        sa.select(p.c.table_id, g.c.number, p.c.first_row_id, g.c.rows)
        .join(p, p.c.segment == g.c.number)
        .distinct()
        .order_by(p.c.table_id, p.c.first_row_id)
    )
    table: Any = None
    end = 0
    for row in connection.execute(query):
        if row.table_id == table and row.first_row_id < end:
            yield Finding("row-id ranges do not overlap", f"segment {row.number}", f"starts at {row.first_row_id}")
        table, end = row.table_id, row.first_row_id + row.rows


def vectors_fit(connection: sa.Connection) -> Iterator[Finding]:
    g, d = s.segments, s.deletion_vectors
    query = sa.select(d.c.id, d.c.segment).join(g, g.c.number == d.c.segment).where(d.c.cardinality > g.c.rows)
    for row in connection.execute(query):
        yield Finding("a vector marks no more rows than there are", f"segment {row.segment}", f"vector {row.id}")


def covered_segments_are_there(connection: sa.Connection) -> Iterator[Finding]:
    c, f, g = s.index_coverage, s.index_files, s.segments
    lost = sa.or_(f.c.path.is_(None), g.c.number.is_(None))
    joined = c.join(f, f.c.path == c.c.path, isouter=True).join(g, g.c.number == c.c.segment, isouter=True)
    for row in connection.execute(sa.select(c.c.path, c.c.segment).select_from(joined).where(lost)):
        yield Finding("an index covers segments that are there", row.path, f"segment {row.segment}")


def references_are_live(connection: sa.Connection) -> Iterator[Finding]:
    t, d, v, m, k = s.tables, s.databases, s.views, s.view_members, s.ingest_tokens
    unopened = sa.select(s.branch_tables.c.own_id).where(s.branch_tables.c.opened.is_(False))  # of branches
    dead = sa.or_(sa.and_(t.c.id.is_(None), m.c.table_id.not_in(unopened)), t.c.tombstoned_at.is_not(None))
    members = sa.select(v.c.name, m.c.table_id).join(m, m.c.view_id == v.c.id)
    members = members.join(t, t.c.id == m.c.table_id, isouter=True).where(v.c.tombstoned_at.is_(None), dead)
    found = [("view", row) for row in connection.execute(members)]
    target = sa.or_(*(t.c.id == column for column in (k.c.traces_table_id, k.c.logs_table_id, k.c.metrics_table_id)))
    routed = (
        sa.select(k.c.name, t.c.id).join(t, target).where(k.c.tombstoned_at.is_(None), t.c.tombstoned_at.is_not(None))
    )
    found += [("ingest token", row) for row in connection.execute(routed)]
    for kind, row in found:
        yield Finding("what is live refers to live tables", f"{kind} {row[0]}", f"table {row[1]} was dropped")
    for kind, source in (("table", t), ("view", v), ("ingest token", k)):
        orphans = sa.select(source.c.name).join(d, d.c.id == source.c.database_id)
        orphans = orphans.where(source.c.tombstoned_at.is_(None), d.c.tombstoned_at.is_not(None))
        for name in connection.execute(orphans).scalars():
            yield Finding("what is live is in a live database", f"{kind} {name}", "its database was dropped")


def erasures_committed(connection: sa.Connection) -> Iterator[Finding]:
    e = s.erasures
    for row in connection.execute(sa.select(e).where(e.c.version.is_(None))):
        yield Finding(
            "an erase that began has committed",
            f"table {row.table_id}",
            f"one with the condition {row.outline!r} has not: it runs, or it was killed and is to be run again",
        )


INVARIANTS: tuple[Callable[[sa.Connection], Iterator[Finding]], ...] = (
    one_open_span,
    spans_run_forward,
    vectors_are_there,
    vectors_fit,
    column_files_are_there,
    sums_are_right,
    row_ids_are_disjoint,
    covered_segments_are_there,
    references_are_live,
    erasures_committed,
)


def _check_file(catalog: Catalog, file: KnownFile, data: bool) -> Iterator[Finding]:
    try:
        if file.adopted is not None:
            problem = _adopted_problem(catalog, file.adopted)
        elif data:
            problem = file.problem(catalog.store.get(file.path))
        else:
            found = catalog.store.head(file.path).size
            problem = None if file.size in (None, found) else f"it has {found} bytes, not {file.size}"
    except MoulinError as error:
        problem = error.message
    if problem:
        yield Finding("a file is as it was written", file.path, problem)


def _adopted_problem(catalog: Catalog, facts: SegmentFacts) -> str | None:
    """Whether an adopted file is unchanged: its footer has no checksum of the rest."""
    assert facts.adopted is not None
    found = catalog.store.head(facts.path)
    if facts.adopted.etag and found.etag and found.etag != facts.adopted.etag:
        return f"it was changed after it was adopted: its ETag is {found.etag}, not {facts.adopted.etag}"
    with open_segment(catalog.store, facts) as source:
        read_segment_footer(source, facts.path, facts)
    return None


def _check_marker(catalog: Catalog) -> Iterator[Finding]:
    try:
        problem = None if read_marker(catalog.store) is not None else "it is missing; opening the lake writes it again"
    except MoulinError as error:
        problem = error.message
    if problem:
        yield Finding("the marker says which lake this is", paths.marker(), problem)


def _check_manifests(catalog: Catalog) -> Iterator[Finding]:
    """Checks that every manifest in storage is readable, and that all needed for a recovery exist."""
    index = ManifestIndex(catalog.store, catalog.uuid, writing=False)
    damaged = False
    for _, name in index.names():
        try:
            index.read(name)
        except NotFound:  # cleaned up since it was listed
            continue
        except MoulinError as error:
            damaged = True
            yield Finding("a manifest can be read", name, error.message)
    if not damaged:
        for problem in published_line(catalog)[1]:
            yield Finding("every manifest of a kept version is there", paths.lake_manifests_prefix(), problem.message)
