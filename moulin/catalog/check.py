"""Is everything as the catalog says? Named invariants of its rows, and every file of every kept version against its
facts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa

from moulin.catalog import schema as s
from moulin.catalog.catalog import Catalog
from moulin.errors import MoulinError
from moulin.formats import manifest as codec
from moulin.formats.journal import Journal
from moulin.formats.key_index import KeyIndex
from moulin.formats.puffin import read_deletion_vectors
from moulin.storage import paths


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: the rule it breaks, where, and what was found."""

    rule: str
    where: str
    found: str


Progress = Callable[[int, int], None]


def check(catalog: Catalog, *, data: bool = True, progress: Progress | None = None) -> list[Finding]:
    """Check a lake; `data` also reads every byte of every file. `progress(done, all)` counts files."""
    findings: list[Finding] = []
    with catalog.engine.read() as connection:
        for invariant in INVARIANTS:
            findings.extend(invariant(connection))
        files = list(_files(connection))
    for done, (path, size, verify) in enumerate(files, start=1):
        findings.extend(_check_file(catalog, path, size, verify if data else None))
        if progress:
            progress(done, len(files))
    findings.extend(_check_manifests(catalog))
    return findings


# Invariants of the rows. Each yields what breaks it.


def one_open_span(connection: sa.Connection) -> Iterator[Finding]:
    p = s.segment_spans
    query = (
        sa.select(p.c.segment, sa.func.count())
        .where(p.c.removed_version == s.OPEN)
        .group_by(p.c.branch, p.c.segment)
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


def sums_are_right(connection: sa.Connection) -> Iterator[Finding]:
    p, g, d, t = s.segment_spans, s.segments, s.deletion_vectors, s.tables
    live = (
        sa.select(
            p.c.table_id,
            sa.func.count().label("segments"),
            sa.func.sum(g.c.rows - sa.func.coalesce(d.c.cardinality, 0)).label("rows"),
            sa.func.sum(g.c.size).label("bytes"),
        )
        .select_from(p.join(g, g.c.number == p.c.segment).join(d, d.c.id == p.c.vector_id, isouter=True))
        .where(p.c.removed_version == s.OPEN, p.c.branch == s.MAIN)
        .group_by(p.c.table_id)
        .subquery()
    )
    query = sa.select(t, live.c.segments.label("s"), live.c.rows.label("r"), live.c.bytes.label("b")).join(
        live, live.c.table_id == t.c.id, isouter=True
    )
    for row in connection.execute(query):
        kept, found = (row.segments, row.rows, row.bytes), (row.s or 0, row.r or 0, row.b or 0)
        if kept != tuple(int(value) for value in found):
            yield Finding("a table's sums are those of its live segments", f"table {row.name}", f"{kept}, not {found}")


def row_ids_are_disjoint(connection: sa.Connection) -> Iterator[Finding]:
    g = s.segments
    query = sa.select(g.c.table_id, g.c.number, g.c.first_row_id, g.c.rows).order_by(g.c.table_id, g.c.first_row_id)
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


def references_are_live(connection: sa.Connection) -> Iterator[Finding]:
    t, d, v, m, k = s.tables, s.databases, s.views, s.view_members, s.ingest_tokens
    dead = sa.or_(t.c.id.is_(None), t.c.tombstoned_at.is_not(None))
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


INVARIANTS: tuple[Callable[[sa.Connection], Iterator[Finding]], ...] = (
    one_open_span,
    spans_run_forward,
    vectors_are_there,
    vectors_fit,
    sums_are_right,
    row_ids_are_disjoint,
    references_are_live,
)

Verify = Callable[[bytes], str | None]


def _files(connection: sa.Connection) -> Iterator[tuple[str, int | None, Verify | None]]:
    """Every file that a row names: its path, its size where known, and what its bytes must satisfy."""
    g, d = s.segments, s.deletion_vectors
    for row in connection.execute(sa.select(g.c.path, g.c.size, g.c.sha256, g.c.index_size).order_by(g.c.number)):
        yield row.path, row.size, _has_hash(row.sha256)
        if row.index_size:
            path = paths.key_index_path(row.path)
            yield path, row.index_size, partial(_is_key_index, path)
    vectors: dict[str, list[Any]] = {}
    for row in connection.execute(
        sa.select(d, g.c.path.label("segment_path")).join(g, g.c.number == d.c.segment).order_by(d.c.path)
    ):
        vectors.setdefault(row.path, []).append(row)
    for path, rows in vectors.items():
        yield path, None, _holds_vectors(rows)
    for path in connection.execute(sa.select(s.journals.c.path)).scalars():
        yield path, None, _is_journal


def _has_hash(expected: bytes) -> Verify:
    def verify(data: bytes) -> str | None:
        return None if hashlib.sha256(data).digest() == expected else "its SHA-256 is not the one recorded"

    return verify


def _holds_vectors(rows: list[Any]) -> Verify:
    """A Puffin file holds the vectors that rows say, at their places, for the files they are for."""

    def verify(data: bytes) -> str | None:
        found = {place.offset: (blob, place) for blob, place in read_deletion_vectors(data)}
        for row in rows:
            blob, place = found.get(row.offset, (None, None))
            if blob is None or place is None or place.length != row.length:
                return f"the vector of segment {row.segment} is not at offset {row.offset}"
            if not blob.referenced_data_file.endswith(row.segment_path):
                return f"the vector at offset {row.offset} is not for segment {row.segment}"
            if place.cardinality != row.cardinality:
                return f"the vector of segment {row.segment} marks {place.cardinality} rows, not {row.cardinality}"
        return None

    return verify


def _is_key_index(path: str, data: bytes) -> str | None:
    index = KeyIndex(lambda start, length: data[start : start + length], len(data), path)
    for number in range(index.blocks):
        index.load(number)
    return None


def _is_journal(data: bytes) -> str | None:
    Journal.decode(data).verify()
    return None


def _check_file(catalog: Catalog, path: str, size: int | None, verify: Verify | None) -> Iterator[Finding]:
    try:
        if verify is None:
            found = catalog.store.head(path).size
            problem = None if size is None or found == size else f"it has {found} bytes, not {size}"
        else:
            data = catalog.store.get(path)
            problem = verify(data) if size is None or len(data) == size else f"it has {len(data)} bytes, not {size}"
    except MoulinError as error:
        problem = error.message
    if problem:
        yield Finding("a file is as it was written", path, problem)


def _check_manifests(catalog: Catalog) -> Iterator[Finding]:
    """Every manifest in storage can be read."""
    for prefix in (paths.lake_manifests_prefix(), paths.tables_prefix()):
        for info in catalog.store.list(prefix):
            if paths.parse_lake_manifest(info.path) or paths.parse_table_manifest(info.path):
                try:
                    codec.decode(catalog.store.get(info.path), info.path)
                except MoulinError as error:
                    yield Finding("a manifest can be read", info.path, error.message)
