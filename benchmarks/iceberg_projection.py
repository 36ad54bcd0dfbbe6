"""What Iceberg engines wait for: a projection after one append, and scans of it against scans of its Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks import big_catalog
from benchmarks.harness import Bench, Contender, Line, Sample, Skipped, take_turns
from benchmarks.lakes import merged_table
from moulin import Lake
from moulin.iceberg.projection.projection import project
from moulin.model.operations import Kind
from moulin.storage.local import LocalStore
from moulin.table.commit.change import DataChange

TITLE = "Iceberg projection"
TARGET = 1.5
_SEGMENTS = 100_000


def run(bench: Bench) -> Iterator[Line]:
    yield _after_append(bench)
    yield from _scans(bench)


def _after_append(bench: Bench) -> Line:
    many, few = min(_SEGMENTS, bench.segments), min(big_catalog.SMALL, bench.segments)
    bench.step(f"catalogs of {many:,} and {few:,} segments")
    large = big_catalog.with_segments(bench, "sqlite", many)
    small = big_catalog.with_segments(bench, "sqlite", few)
    for lake in (large, small):
        bench.step("first projection")
        project(lake.context, lake.table(big_catalog.TABLE).id)
    bench.step("projections after one append each")
    samples = take_turns({"large": _append(large), "small": _append(small)}, 40, warm_up=5)
    case = f"after an append, {many:,} segments / {few:,}"
    return Line("iceberg_projection", case, samples["large"], samples["small"], "small table", TARGET)


def _append(lake: Lake) -> Contender:
    """Projections, each after a commit of one segment that is not timed."""
    place = 0

    def prepare() -> None:
        nonlocal place
        state = lake.table(big_catalog.TABLE).state()
        start = big_catalog.START + big_catalog.YEAR - (600 + place) * 1_000_000_000
        place += 1
        facts = big_catalog.segment(state, lake.catalog.reserve_segments(1), start, start + 30_000_000_000, 0)
        lake.context.committer.commit([DataChange(state.id, state.version, Kind.APPEND, (facts,))])

    table_id = lake.table(big_catalog.TABLE).id
    return Contender(lambda: project(lake.context, table_id), prepare)


def _scans(bench: Bench) -> Iterator[Line]:
    table = merged_table(bench)
    lake = bench.lake()
    made = project(lake.context, table.id)
    segments = lake.catalog.segments(table.id, made.version, with_columns=False)
    assert isinstance(lake.store, LocalStore)
    files = [str(lake.store.local_path(segment.facts.path)) for segment in segments]
    for name, ours, direct in (("pyiceberg", _pyiceberg, _pyarrow), ("DuckDB", _duckdb, _duckdb_files)):
        case = f"{name} scans the projection / the same files"
        try:
            samples = take_turns(
                {"ours": Contender(lambda f=ours: f(made.location)), "peer": Contender(lambda f=direct: f(files))},
                bench.runs,
            )
        except Skipped as skipped:
            yield Line("iceberg_projection", case, reason=str(skipped))
            continue
        yield _line(case, samples)


def _line(case: str, samples: dict[str, Sample]) -> Line:
    return Line("iceberg_projection", case, samples["ours"], samples["peer"], "Parquet files")


def _pyiceberg(location: str) -> int:
    from pyiceberg.table import StaticTable

    return int(StaticTable.from_metadata(location).scan().to_arrow().num_rows)


def _pyarrow(files: list[str]) -> int:
    return sum(pq.read_table(file).num_rows for file in files)


@cache
def _connection() -> Any:
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "httpfs", "iceberg"):
        spec = find_spec(f"duckdb_extension_{name}")
        if spec is None or spec.origin is None:
            raise Skipped(f"duckdb-extension-{name} is not installed")
        (file,) = Path(spec.origin).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    return connection


_ALL = "SELECT count(columns(*)), max(columns(*)) FROM"  # every column is read


def _duckdb(location: str) -> Any:
    return _connection().execute(f"{_ALL} iceberg_scan('{location}')").fetchone()


def _duckdb_files(files: list[str]) -> Any:
    return _connection().execute(f"{_ALL} read_parquet({files!r}, hive_partitioning=false)").fetchone()
