"""Tables of telemetry after compaction: how small they are, how fast it is, and what a question for one hour reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import moulin
from benchmarks import nursery
from benchmarks.harness import Bench, Contender, Line, Sample
from moulin import Lake
from moulin.model.otel import SIGNALS
from moulin.pipeline.nursery.nursery import Nursery
from moulin.table.table import Table

TITLE = "telemetry after compaction"
STORED = 0.15  # of the bytes of OTLP protobuf
MERGE = 1.25  # of the time of pyarrow: 0.8 of its rate
HOUR = 3.0
SIZE = 128_000_000
OBJECT = 4_000_000
_HOUR_NS = 3_600_000_000_000
_DAYS, _DAY = 365, 200
_HOUR_ROWS, _BUSY_HOUR_ROWS, _BUSY = 50, 1500, 40  # every 40th day is a busy one, the one asked about too
_SERVICE = "pay-api"


def run(bench: Bench) -> Iterator[Line]:
    bench.step(f"making {SIZE:,} bytes of OTLP")
    objects = nursery.make(SIZE, OBJECT)
    size = {signal: sum(len(d) for some in objects for s, d in some if s == signal) for signal in SIGNALS}
    with moulin.connect(bench.folder / "telemetry", nursery_batch_bytes=OBJECT) as lake:
        nursery.fill(lake, objects)
        bench.step("taking it in, many small batches")
        Nursery(lake, spark=False).drain()
        tables = {signal: lake.table(f"otel.{signal}") for signal in SIGNALS}
        fresh = {signal: table.version for signal, table in tables.items()}
        for table in tables.values():
            bench.step(f"compacting {table.name}")
            table.compact(everything=True)
        stored = {signal: table.stats().bytes for signal, table in tables.items()}
        for signal in SIGNALS:
            yield _stored(signal, stored[signal], size[signal], None)
        yield _stored("all signals", sum(stored.values()), sum(size.values()), STORED)
        for signal in ("logs", "traces"):
            yield _compact(bench, lake, tables[signal], fresh[signal])
        yield _hour(bench, tables["logs"].scan().to_arrow())


def _stored(what: str, stored: int, size: int, target: float | None) -> Line:
    ours, peer = Sample((stored / 1e6,)), Sample((size / 1e6,))
    return Line("telemetry", f"bytes of {what}", ours, peer, "OTLP", target=target, unit="MB")


def _files(lake: Lake, table: Table) -> list[Path]:
    segments = lake.catalog.segments(table.id, table.version, with_columns=False)
    return [path for s in segments if (path := lake.store.local_path(s.facts.path)) is not None]


def _compact(bench: Bench, lake: Lake, table: Table, fresh: int) -> Line:
    """The first compaction after a nursery; pyarrow reads, sorts and writes the same files with the same codec."""
    table.restore(fresh)
    files, target = _files(lake, table), bench.folder / "telemetry.parquet"

    def peer() -> None:
        rows = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])
        pq.write_table(rows.sort_by("event_time"), target, compression="zstd")

    ours = Contender(lambda: table.compact(everything=True), lambda: table.restore(fresh))
    case = f"compaction of {len(files)} fresh segments of {table.name}"
    return bench.compare("telemetry", case, ours, {"pyarrow": peer}, target=MERGE)


def _hour(bench: Bench, logs: pa.Table) -> Line:
    """One hour of a year by service: segments are days, and clusters of services on busy ones."""
    with moulin.connect(bench.folder / "year", merge_segment_bytes=4 << 20) as lake:
        nursery.fill(lake, [])
        table = lake.table("otel.logs")
        begin = int(logs["event_time_unix_nano"][0].as_py()) // (24 * _HOUR_NS) * 24 * _HOUR_NS - _DAYS * 24 * _HOUR_NS
        for first in range(0, _DAYS, 30):
            bench.step(f"a year of logs: day {first + 1}")
            days = range(first, min(first + 30, _DAYS))
            table.append(pa.concat_tables([_day(logs, begin + day * 24 * _HOUR_NS, day) for day in days]))
        bench.step("compacting the year")
        table.compact(everything=True)
        start = begin + _DAY * 24 * _HOUR_NS + 10 * _HOUR_NS
        low, high = (np.datetime64(at, "ns").astype(str) for at in (start, start + _HOUR_NS))
        where = f"event_time >= timestamp '{low}Z' and event_time < timestamp '{high}Z' and service_name = '{_SERVICE}'"
        plan = table.scan(where=where).plan()
        files = [path for s in plan.segments if (path := lake.store.local_path(s.facts.path)) is not None]
        if not table.scan(where=where).count():
            raise AssertionError("The hour is empty.")

        def peer() -> None:
            for file in files:
                pq.read_table(file, partitioning=None)

        line = bench.compare(
            "telemetry",
            f"one hour of a year of logs of one service / reading just its {len(files)} segments",
            lambda: table.scan(where=where).to_arrow(),
            {"pyarrow": peer},
            target=HOUR,
            runs=max(bench.runs, 9),
        )
        return dataclasses.replace(line, reason=f"{len(plan.segments)} of {plan.total} segments read")


def _day(logs: pa.Table, start: int, day: int) -> pa.Table:
    """Some of the rows, spread over one day."""
    count = 24 * (_HOUR_ROWS if day % _BUSY else _BUSY_HOUR_ROWS)
    chosen = np.random.default_rng(day).integers(0, logs.num_rows, count)
    rows = logs.take(pa.array(chosen))
    nanos = start + np.linspace(0, 24 * _HOUR_NS - 1, len(chosen)).astype(np.int64)
    times, later = pa.array(nanos // 1000), pa.array(nanos // 1000 + 1_000_000)
    columns = {"event_time": times, "reported_time": times, "ingest_time": later}
    columns |= {"event_time_unix_nano": pa.array(nanos), "reported_time_unix_nano": pa.array(nanos)}
    for name, values in columns.items():
        field = logs.schema.field(name)
        rows = rows.set_column(rows.schema.get_field_index(name), field, values.cast(field.type))
    return rows


__all__ = ["TITLE", "run"]
