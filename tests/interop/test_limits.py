"""What `readers` says that an engine cannot read, the engine itself proves. One that learned it fails its test here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from moulin.iceberg.check.checker import check
from moulin.iceberg.projection import engines
from moulin.iceberg.projection.engines import Reader, features, readers
from moulin.iceberg.projection.projection import Projection, project
from moulin.lake import Lake
from moulin.table.table import Table
from tests.iceberg.conftest import lake as lake  # a fixture
from tests.interop.engines import ENGINES, answers, duckdb_connection, rows

ID = ("id", "long", False)
DATAFUSION = "datafusion (pyiceberg-core)"
MOMENT = "2024-01-01T00:00:00"


def dates(lake: Lake) -> Table:
    table = lake.create_table("shop.t", [ID, ("v", "date")])
    table.append([{"id": 1, "v": "2024-01-01"}])
    table.widen_column("v", "timestamp")
    table.append([{"id": 2, "v": MOMENT}])
    return table


def structs(kind: str, path: str) -> Callable[[Lake], Table]:
    def make(lake: Lake) -> Table:
        table = lake.create_table("shop.t", [ID, ("s", kind)])
        value = {"struct": {"a": 1}, "list": [{"a": 1}], "map": {"k": {"a": 1}}}[kind.partition("<")[0]]
        table.append([{"id": 1, "s": value}])
        table.add_column(f"{path}.b", "int")
        table.append([{"id": 2, "s": value}])
        return table

    return make


def partitioned(kind: str, value: object) -> Callable[[Lake], Table]:
    def make(lake: Lake) -> Table:
        table = lake.create_table("shop.t", [ID, ("v", kind)], partition_by=["v"])
        table.append([{"id": 1, "v": value}])
        return table

    return make


def lost(lake: Lake) -> Table:
    table = lake.create_table("shop.t", [ID, ("region", "string"), ("n", "int")], partition_by=["region"])
    table.append([{"id": n, "region": region, "n": n % 2} for n, region in enumerate(["eu", "us", "eu", None])])
    table.set_partitioning(["n"])
    table.drop_column("region")
    table.append([{"id": 9, "n": 1}])
    table.delete_where("id = 0")
    return table


def only_lost(lake: Lake) -> Table:
    table = lake.create_table("shop.t", [ID, ("region", "string"), ("n", "int")], partition_by=["region"])
    table.append([{"id": n, "region": region, "n": n % 2} for n, region in enumerate(["eu", "us", "eu", None])])
    table.set_partitioning(["n"])
    table.drop_column("region")
    table.append([{"id": 9, "n": None}])
    table.delete_where("id = 9")
    return table


def zoned(lake: Lake) -> Table:
    table = lake.create_table("shop.t", [ID, ("v", "list<timestamptz_ns>")])
    table.append([{"id": 1, "v": [f"{MOMENT}+00:00"]}])
    return table


def uuid_default(lake: Lake) -> Table:
    table = lake.create_table("shop.t", [ID])
    table.append([{"id": 1}])
    table.add_column("v", "uuid", "00000000-0000-0000-0000-000000000001")
    table.append([{"id": 2}])
    return table


LIMITS: dict[str, tuple[str, Callable[[Lake], Table], list[str]]] = {
    "dates": (engines.DATES, dates, ["pyiceberg", "polars", "polars native", DATAFUSION]),
    "a struct": (engines.STRUCTS, structs("struct<a: int>", "s"), [DATAFUSION]),
    "a struct in a list": (engines.STRUCTS, structs("list<struct<a: int>>", "s.element"), [DATAFUSION]),
    "a struct in a map": (engines.STRUCTS, structs("map<string, struct<a: int>>", "s.value"), [DATAFUSION]),
    "a default UUID": (engines.UUID_DEFAULTS, uuid_default, [DATAFUSION]),
    "zoned nanoseconds": (engines.ZONED_NANOSECONDS, zoned, ["duckdb"]),
    "partitions by nanoseconds": (
        engines.NANOSECOND_PARTITIONS,
        partitioned("timestamp_ns", MOMENT),
        ["pyiceberg", "polars", "polars native", DATAFUSION],
    ),
    "partitions by uuids": (
        engines.UUID_PARTITIONS,
        partitioned("uuid", "00000000-0000-0000-0000-000000000001"),
        [DATAFUSION],
    ),
    "a dropped partition column": (engines.LOST_PARTITIONS, lost, ["duckdb", DATAFUSION]),
    "dropped partition columns alone": (engines.ONLY_LOST_PARTITIONS, only_lost, ["duckdb", DATAFUSION]),
}


def able(lake: Lake, made: Projection) -> dict[str, Reader]:
    live = lake.catalog.segments(made.table_id, made.version, with_columns=False)
    return {one.engine: one for one in readers(made.metadata, [segment.facts for segment in live])}


def reads(engine: str, made: Projection, table: Table) -> bool:
    """Whether an engine returns the rows, in a process of its own, as it may end that."""
    script = f"""
import pickle, sys, warnings
warnings.simplefilter("ignore")
from tests.interop.engines import ENGINES
pickle.dump(ENGINES[{engine!r}]({made.location!r}), sys.stdout.buffer)
"""
    import pickle

    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", script], cwd=root, env=environment, capture_output=True, check=False)
    if done.returncode:
        return False
    return rows(pickle.loads(done.stdout), table.schema) == rows(table.scan().to_arrow(), table.schema)


@pytest.mark.sample(4)
@pytest.mark.parametrize("limit", list(LIMITS))
def test_engines_prove_their_limits(limit: str, lake: Lake) -> None:
    feature, make, unable = LIMITS[limit]
    table = make(lake)
    made = project(lake.context, table.id)
    assert check(made.location) == []
    said = able(lake, made)
    for engine in ENGINES:
        reader = said[engine.removesuffix(" native")]
        if engine in unable:
            assert not reader.reads
            assert feature.partition(" by ")[0] in str(reader.reason)
            assert not reads(engine, made, table), f"{engine} has learned to read {feature}: say so in engines.py"
        else:
            assert reader.reads, reader
            assert rows(ENGINES[engine](made.location), table.schema) == rows(table.scan().to_arrow(), table.schema)


def field_default(lake: Lake) -> Table:
    table = lake.create_table("shop.t", [ID, ("s", "struct<a: int>")])
    table.append([{"id": 1, "s": {"a": 1}}])
    table.add_column("s.b", "int", 5)
    table.append([{"id": 2, "s": {"a": 2}}])
    return table


APART: list[tuple[str, str, Callable[[Lake], Table]]] = [
    ("clickhouse (chdb)", engines.MISSING_DEFAULTS, field_default),
    ("clickhouse (chdb)", engines.UUID_PARTITIONS, partitioned("uuid", "00000000-0000-0000-0000-000000000001")),
    ("sail", engines.LOST_PARTITIONS, lost),
]


def test_engines_apart_prove_their_limits(lake: Lake, tmp_path: Path) -> None:
    questions, tables = [], []
    for place, (engine, feature, make) in enumerate(APART):
        table = make(lake)
        said = able(lake, project(lake.context, table.id))[engine]
        assert not said.reads
        assert feature in str(said.reason)
        table.export_iceberg(tmp_path / f"export{place}")
        questions.append((engine, f"export{place}"))
        tables.append((rows(table.scan().to_arrow(), table.schema), table.schema))
        lake.drop_table("shop.t")
    for found, (expected, schema), asked in zip(answers(tmp_path, questions), tables, APART, strict=True):
        assert isinstance(found, str) or rows(found, schema) != expected, asked[:2]


@pytest.mark.parametrize("make", [dates, structs("struct<a: int>", "s"), lost, only_lost])
@pytest.mark.parametrize("version", ["2", "3"])
def test_a_compaction_of_everything_makes_a_table_readable(
    make: Callable[[Lake], Table], version: str, lake: Lake
) -> None:
    """What only old files have is gone with them, and every engine reads the table."""
    table = make(lake)
    table.delete_where("id = 2")
    table.set_properties({"format-version": version})
    assert not all(one.reads for one in able(lake, project(lake.context, table.id)).values())
    table.compact(everything=True)
    made = project(lake.context, table.id)
    assert check(made.location) == []
    said = able(lake, made)
    for engine, read in ENGINES.items():
        assert said[engine.removesuffix(" native")].reads, engine
        assert rows(read(made.location), table.schema) == rows(table.scan().to_arrow(), table.schema), engine


def test_duckdb_takes_no_condition_over_partitions_of_a_dropped_column(lake: Lake) -> None:
    table = lake.create_table("shop.t", [ID, ("region", "string"), ("n", "int")], partition_by=["region", "n"])
    table.append([{"id": n, "region": "eu", "n": n % 2} for n in range(4)])
    table.set_partitioning(["n"])
    table.drop_column("region")
    made = project(lake.context, table.id)
    query = f"select id from iceberg_scan('{made.location}') where n = 1"
    with pytest.raises(duckdb.Error):
        duckdb_connection().execute(query)
    assert not able(lake, made)["duckdb"].reads
    table.compact(everything=True)
    made = project(lake.context, table.id)
    query = f"select id from iceberg_scan('{made.location}') where n = 1 order by id"
    assert duckdb_connection().execute(query).fetchall() == [(1,), (3,)]
    assert able(lake, made)["duckdb"].reads


def test_partitions_by_fixed_bytes_are_beyond_java(lake: Lake) -> None:
    made = project(lake.context, partitioned("fixed[4]", b"abcd")(lake).id)
    (java,) = [one for one in readers(made.metadata) if one.engine == "iceberg-java"]
    assert engines.FIXED_PARTITIONS in str(java.reason)


def test_without_files_every_schema_and_spec_counts(lake: Lake) -> None:
    table = lost(lake)
    table.compact(everything=True)
    made = project(lake.context, table.id)
    live = lake.catalog.segments(table.id, made.version, with_columns=False)
    assert engines.LOST_PARTITIONS in features(made.metadata)
    assert engines.LOST_PARTITIONS not in features(made.metadata, [segment.facts for segment in live])
