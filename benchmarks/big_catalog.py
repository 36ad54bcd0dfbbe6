"""Lakes whose catalog knows a year of segments that no one wrote: what commits and plans cost depends on facts alone.

The rows go straight into the catalog's SQL tables, as many commits of a hundred segments each would have left them:
most segments compacted and some fifty seconds long, every fiftieth fresh and ten minutes long, one partition a day.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import sqlalchemy as sa

import moulin
from benchmarks import events
from benchmarks.harness import Bench
from benchmarks.postgres import OwnPostgres, Postgres
from moulin import Lake
from moulin.catalog.segments import sql_rows
from moulin.catalog.segments.live import time_class
from moulin.catalog.sql import schema as s
from moulin.formats import manifest as codec
from moulin.model.entities import TableState
from moulin.model.facts import ColumnFacts, SegmentFacts
from moulin.storage import paths

BACKENDS = ("sqlite", "postgresql")
SMALL = 1_000
TABLE = "bench.events"
YEAR = 365 * 86_400 * 1_000_000_000
START = events.START * 1000

_PER_COMMIT = 100
_CHUNK = 10_000
_SECOND = 1_000_000_000
_DAY = 86_400 * _SECOND
# Placeholders in the encoded facts of a segment, replaced by the bounds of its event time.
_LOW, _HIGH = struct.pack("<q", 0x0123456789ABCDEF), struct.pack("<q", 0x0123456789ABCDE0)


def small_and_large(bench: Bench, backend: str) -> tuple[Lake, Lake]:
    """A lake whose table has a thousand segments, and one where it has `bench.segments`."""
    return (
        bench.shared(f"{backend}-small", lambda: _make(bench, backend, "small", min(SMALL, bench.segments))),
        bench.shared(f"{backend}-large", lambda: _make(bench, backend, "large", bench.segments)),
    )


def with_segments(bench: Bench, backend: str, count: int) -> Lake:
    """A lake whose table has `count` segments, other than those of `small_and_large`."""
    lake: Lake = bench.shared(f"{backend}-{count}", lambda: _make(bench, backend, f"of_{count}", count))
    return lake


def segment(state: TableState, number: int, time_min: int, time_max: int, level: int) -> SegmentFacts:
    """Facts as a writer of events would give them, for a segment within one day."""
    return SegmentFacts(
        number=number,
        path=paths.segment_path(state.id, number, secrets.token_hex(4)),
        rows=100_000,
        size=4_000_000,
        level=level,
        schema_id=state.schema_id,
        spec_id=state.spec_id,
        partition=(struct.pack("<i", time_min // _DAY),),
        sha256=secrets.token_bytes(32),
        columns=_columns(struct.pack("<q", time_min // 1000), struct.pack("<q", time_max // 1000)),
        time_min=time_min,
        time_max=time_max,
        sort_order_id=state.sort_order_id,
        split_offsets=(4, 1_300_000, 2_600_000),
    )


def _columns(low: bytes, high: bytes) -> tuple[ColumnFacts, ...]:
    return (
        ColumnFacts(1, 100_000, 0, None, 500_000, struct.pack("<q", 0), struct.pack("<q", 10**11)),
        ColumnFacts(2, 100_000, 0, None, 300_000, low, high),
        ColumnFacts(3, 100_000, 0, None, 40_000, b"af-south", b"us-west"),
        ColumnFacts(4, 100_000, 0, None, 600_000, struct.pack("<q", 3), struct.pack("<q", 999_997)),
        ColumnFacts(5, 100_000, 0, 0, 700_000, struct.pack("<d", 0.01), struct.pack("<d", 512.25)),
        ColumnFacts(6, 100_000, 0, None, 1_800_000, b"bulk bulk 100003", b"web web 999998"),
    )


def _make(bench: Bench, backend: str, name: str, count: int) -> Lake:
    bench.step(f"{backend}: a catalog with {count:,} segments")
    folder = bench.folder / f"{backend}-{name}"
    if backend == "sqlite":
        lake = moulin.connect(folder)
    else:
        lake = moulin.connect(_postgresql(bench, name), storage=str(folder))
    lake.create_database("bench")
    table = lake.create_table(TABLE, events.SCHEMA, event_time="ts", partition_by=["day(ts)"])
    _fill(lake, table.state(), count)
    return lake


def _postgresql(bench: Bench, name: str) -> str:
    """The address of an empty database on a server that ends with the benchmarks."""
    server: Postgres = bench.shared("postgresql", OwnPostgres)
    return server.create_database(f"bench_{name}")


def _fill(lake: Lake, state: TableState, count: int) -> None:
    """Add `count` segments that cover a year, with the versions that would have brought them."""
    first_version = state.version + 1
    commits = -(-count // _PER_COMMIT)
    first = lake.catalog.reserve_segments(count)
    with lake.catalog.pool.unordered() as connection:
        days = {(state.spec_id, (struct.pack("<i", START // _DAY + day),)) for day in range(365)}
        places = sql_rows.partition_ids(connection, state.id, days)
        by_day = {struct.unpack("<i", values[0] or b"")[0]: place for (_, values), place in places.items()}
        classes = 0
        for start in range(0, count, _CHUNK):
            segments, spans = [], []
            for place in range(start, min(start + _CHUNK, count)):
                row, span = _rows(state, first + place, place, count, first_version + place // _PER_COMMIT, by_day)
                segments.append(row)
                spans.append(span)
                classes |= 1 << span["time_class"]
            connection.execute(s.segments.insert(), segments)
            connection.execute(s.segment_spans.insert(), spans)
        _add_history(connection, state, first_version, commits, count)
        connection.execute(
            s.tables.update()
            .where(s.tables.c.id == state.id)
            .values(
                segments=count,
                rows=count * 100_000,
                bytes=count * 4_000_000,
                next_row_id=count * 100_000,
                time_classes=classes,
                last_sequence=commits,
                head_version=first_version + commits - 1,
            )
        )
        connection.execute(s.counter.update().values(version=first_version + commits - 1))
    with _autocommit(lake) as connection:
        connection.execute(sa.text("ANALYZE" if lake.catalog.pool.is_sqlite else "VACUUM ANALYZE"))


def _rows(
    state: TableState, number: int, place: int, count: int, version: int, by_day: dict[int, int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the catalog holds of one segment: its row and its span."""
    fresh = place % 50 == 49
    time_min = START + YEAR * place // count
    end_of_day = (time_min // _DAY + 1) * _DAY
    time_max = min(time_min + (600 if fresh else 50) * _SECOND, end_of_day - 1000)
    partition = by_day[time_min // _DAY]
    row = {
        **_template(state.id),
        "number": number,
        "path": paths.segment_path(state.id, number, f"{number & 0xFFFFFFFF:08x}"),
        "level": 0 if fresh else 2,
        "schema_id": state.schema_id,
        "partition_id": partition,
        "sort_order_id": state.sort_order_id,
        "facts": _facts(time_min // 1000, time_max // 1000),
        "time_min": time_min,
        "time_max": time_max,
        "seq_min": place // _PER_COMMIT + 1,
        "seq_max": place // _PER_COMMIT + 1,
        "added_version": version,
    }
    joined = place * 100_000, place // _PER_COMMIT + 1, version, 0  # no column files
    carried = (partition, time_class(time_min, time_max), time_min, time_max, *joined)
    return row, sql_rows.span_row(state.id, number, 0, version, carried)


def _template(table_id: UUID) -> dict[str, Any]:
    return {
        "table_id": table_id,
        "rows": 100_000,
        "size": 4_000_000,
        "sha256": secrets.token_bytes(32),
        "has_lineage": False,
        "key_min": None,
        "key_max": None,
    }


_ENCODED = codec.encode_columns(_columns(_LOW, _HIGH), (4, 1_300_000, 2_600_000)).SerializeToString(deterministic=True)


def _facts(low: int, high: int) -> bytes:
    """The encoded facts of a segment's columns; its times are put into bytes that were encoded once."""
    return _ENCODED.replace(_LOW, struct.pack("<q", low)).replace(_HIGH, struct.pack("<q", high))


def _add_history(connection: sa.Connection, state: TableState, first_version: int, commits: int, count: int) -> None:
    versions, history = [], []
    for place in range(commits):
        stamp = START + place
        versions.append({"version": first_version + place, "timestamp_ns": stamp, "kind": "append"})
        history.append(
            {
                "table_id": state.id,
                "version": first_version + place,
                "ordinal": 0,
                "timestamp_ns": stamp,
                "kind": "append",
                "schema_id": state.schema_id,
                "spec_id": state.spec_id,
                "sort_order_id": state.sort_order_id,
                "sequence": place + 1,
                "snapshot_id": place + 1,
                "first_row_id": place * _PER_COMMIT * 100_000,
                "added_rows": min(_PER_COMMIT, count - place * _PER_COMMIT) * 100_000,
                "properties": None,
                "summary": {"added-data-files": str(_PER_COMMIT)},
            }
        )
    connection.execute(s.versions.insert(), versions)
    connection.execute(s.table_commits.insert(), history)


@contextmanager
def _autocommit(lake: Lake) -> Iterator[sa.Connection]:
    """A connection of its own, for statements that cannot run inside a transaction."""
    engine = sa.create_engine(lake.catalog.pool._engine.url)
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            yield connection
    finally:
        engine.dispose()
