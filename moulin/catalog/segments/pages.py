"""The SQL of searches for segments: statements that are put together once, and read what an answer holds, no more."""

# Decisions: docs/decisions/0141

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from moulin.catalog.segments.bases import unmasked
from moulin.catalog.sql import schema as s

MAX_SCANS = 40  # index scans that one statement makes

# What one scan of the index on times is bounded by.
_BOUNDS: dict[str, Any] = {
    "table_id": sa.Uuid(),
    "version": sa.BigInteger(),
    "mask_of": sa.Uuid(),
    "mask_version": sa.BigInteger(),
    "time_class": sa.SmallInteger(),
    "first_start": sa.BigInteger(),
    "last_start": sa.BigInteger(),
    "first_end": sa.BigInteger(),
    "after": sa.BigInteger(),
}
_SPAN = ("table_id", "segment", "vector_id", "time_min", "time_max", "removed_version")


def first_rows(connection: sa.Connection, scans: Sequence[dict[str, Any]], limit: int) -> Sequence[sa.Row[Any]]:
    """The first rows of several scans, each of a level of a table, in their order.

    Each has the number of its scan, from 1, as `scan`. A statement for PostgreSQL takes any number of scans, so
    that it is parsed and planned once. SQLite has no LATERAL.
    """
    if connection.dialect.name == "postgresql":
        bounds = {name: [scan[name] for scan in scans] for name in _BOUNDS}
        return connection.execute(_lateral(), {**bounds, "limit": limit}).all()
    bounds = {f"{name}_{n}": scan[name] for n, scan in enumerate(scans) for name in _BOUNDS}
    return connection.execute(_union(len(scans)), {**bounds, "limit": limit}).all()


def with_facts(spans: Any, *more: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """What an answer says of the segments of `spans`, and `more`."""
    g, d = s.segments, s.deletion_vectors
    taken = (g.c.number, g.c.path, g.c.rows, g.c.size, g.c.sha256, g.c.added_version, d.c.cardinality)
    held = sa.case((g.c.inline, g.c.facts)).label("held")
    span = (spans.c.table_id, spans.c.time_min, spans.c.time_max, spans.c.removed_version)
    has_time = g.c.time_min.is_not(None).label("has_time")
    joined = spans.join(g, g.c.number == spans.c.segment).join(d, d.c.id == spans.c.vector_id, isouter=True)
    return sa.select(*taken, *span, has_time, held, *more).select_from(joined)


def _scan(bound: Any, *around: sa.FromClause) -> sa.Select[Any]:
    """The first spans of one scan; `bound` gives its bounds by name, which may be columns of `around`."""
    p, first_start, version = s.segment_spans, bound["first_start"], bound["version"]
    return (
        sa.select(*(p.c[name] for name in _SPAN))
        .where(unmasked(p, bound["mask_of"], bound["mask_version"], *around))
        .where(p.c.table_id == bound["table_id"], p.c.time_class == bound["time_class"])
        .where(p.c.added_version <= version, p.c.removed_version > version)
        .where(p.c.time_min >= first_start, p.c.time_min <= bound["last_start"], p.c.time_max >= bound["first_end"])
        .where(sa.or_(p.c.time_min > first_start, p.c.segment > bound["after"]))
        .order_by(p.c.time_min, p.c.segment)
        .limit(sa.bindparam("limit"))
    )


def _page(found: Any, scan: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """The first of all that the scans found, with their facts: only what is in the page is looked up."""
    columns = [scan.label("scan"), *(found.c[name] for name in _SPAN)]
    return sa.select(*columns).order_by(scan, found.c.time_min, found.c.segment).limit(sa.bindparam("limit"))


def _ordered(first: Any) -> sa.Select[Any]:
    return with_facts(first, first.c.scan).order_by(first.c.scan, first.c.time_min, first.c.segment)


@cache
def _lateral() -> sa.Select[Any]:
    arrays = [sa.bindparam(name, type_=sa.ARRAY(kind)) for name, kind in _BOUNDS.items()]
    columns = [sa.column(name, kind) for name, kind in _BOUNDS.items()]
    bounds = sa.func.unnest(*arrays).table_valued(*columns, with_ordinality="scan").render_derived("bounds")
    found = _scan(bounds.c, bounds).lateral("found")
    page = _page(found, bounds.c.scan).select_from(bounds.join(found, sa.true()))
    return _ordered(page.subquery("page"))


@cache
def _union(scans: int) -> sa.Select[Any]:
    """The same for SQLite; parameters of scan n end with _n."""
    each = []
    for n in range(scans):
        found = _scan({name: sa.bindparam(f"{name}_{n}") for name in _BOUNDS}).subquery()
        each.append(sa.select(sa.literal_column(str(n + 1)).label("scan"), *(found.c[name] for name in _SPAN)))
    every = sa.union_all(*each).subquery()
    return _ordered(_page(every, every.c.scan).subquery("page"))
