"""Engines see the rows that scan() sees, at the same version, after anything that can happen to a table."""

from __future__ import annotations

import importlib.util
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import moulin
from moulin.iceberg.check import checker
from moulin.iceberg.projection.engines import readers
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.table.table import Table
from tests.interop.engines import ENGINES, read_alone, rows

COLUMNS = [("id", "long", False), ("n", "int"), ("ts", "timestamptz"), ("region", "string"), ("amount", "double")]


def assert_same_rows(lake: Lake, table: Table, version: int | None = None) -> list[str]:
    """Every engine that can read the table returns its rows; returns who was asked."""
    made = project(lake.context, table.id, version)
    shown = table.at(made.version)
    expected = rows(shown.scan().to_arrow(), shown.schema)
    live = [segment.facts for segment in lake.catalog.segments(table.id, made.version, with_columns=False)]
    able = {reader.engine for reader in readers(made.metadata, live) if reader.reads}
    asked = []
    for name, read in ENGINES.items():
        if name.removesuffix(" native") in able:
            assert rows(read(made.location), shown.schema) == expected, name
            asked.append(name)
    return asked


class Story:
    """Random changes to a table, the same for the same seed."""

    def __init__(self, table: Table, seed: int, keyed: bool, version: int) -> None:
        self.table, self.random, self.keyed, self.format = table, random.Random(seed), keyed, version
        self.next_id, self.added = 0, 0

    def step(self) -> str:
        names = ["append", "append", "delete", "compact", "evolve", "partition", "restore", "overwrite"]
        name = self.random.choice([*names, "upsert", "upsert"] if self.keyed else names)
        getattr(self, name)()
        return name

    def state(self) -> TableState:
        return self.table.state()

    def row(self, number: int) -> dict[str, Any]:
        chance, schema = self.random, self.table.schema
        values: dict[str, Any] = {
            "id": number,
            "n": chance.choice([None, chance.randrange(-1000, 1000)]),
            "ts": f"2024-03-{chance.randrange(1, 28):02}T{chance.randrange(24):02}:00:00.000001+00:00",
            "region": chance.choice(["eu", "us", None, "déjà"]),
            "amount": chance.choice([None, -0.0, 1.5, float(chance.randrange(100))]),
        }
        extra = {field.name: chance.randrange(10) for field in schema if field.name.startswith("x")}
        return {**{k: v for k, v in values.items() if k in schema.names}, **extra}

    def append(self) -> None:
        count = self.random.randrange(1, 20)
        self.table.append([self.row(self.next_id + n) for n in range(count)])
        self.next_id += count

    def upsert(self) -> None:
        self.table.append([self.row(self.random.randrange(self.next_id + 1)) for _ in range(1)])
        self.next_id += 1

    def delete(self) -> None:
        low = self.random.randrange(self.next_id + 1)
        self.table.delete_where(f"id >= {low} and id < {low + 4}")

    def overwrite(self) -> None:
        if not self.keyed:
            self.table.overwrite([self.row(0)], where="id < 3")

    def compact(self) -> None:
        self.table.compact(everything=True)

    def evolve(self) -> None:
        self.added += 1
        match self.random.randrange(3):
            case 0:
                default = self.random.randrange(10) if self.format == 3 else None
                self.table.add_column(f"x{self.added}", "long", default)
            case 1 if "amount" in self.table.schema.names:
                self.table.drop_column("amount")
            case _:
                if self.table.schema.field("n").type == pa.int32():
                    self.table.widen_column("n", "long")

    def partition(self) -> None:
        choices = [["region"], ["day(ts)"], ["bucket(3, id)", "region"], [], ["truncate(10, id)"]]
        self.table.set_partitioning(self.random.choice(choices))

    def restore(self) -> None:
        versions = [info.version for info in self.table.history() if info.version >= self.state().oldest_version]
        if not self.keyed:
            self.table.restore(self.random.choice(versions))


@pytest.mark.parametrize("keyed", [False, True], ids=["event", "keyed"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 8))])
def test_engines_see_what_scan_sees(tmp_path: Path, seed: int, version: int, keyed: bool) -> None:
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        options: dict[str, Any] = {"primary_key": ["id"]} if keyed else {"event_time": "ts"}
        table = lake.create_table("shop.t", COLUMNS, properties={"format-version": version}, **options)
        story = Story(table, seed * 10 + version, keyed, version)
        done, asked = [], set[str]()
        for number in range(16):
            done.append(story.step())
            if number % 4 == 3:  # versions in between are skipped
                try:
                    asked.update(assert_same_rows(lake, table))
                except AssertionError as error:
                    raise AssertionError(f"after {done}") from error
        assert asked >= {"duckdb", "pyiceberg", "polars"}
        older = story.random.choice(table.history())
        assert_same_rows(lake, table, older.version)
        made = project(lake.context, table.id)
        assert checker.check(made.location, every_snapshot=True) == []


@pytest.mark.parametrize(("engine", "package"), [("clickhouse (chdb)", "chdb"), ("sail", "pysail"), ("daft", "daft")])
def test_engines_in_a_process_of_their_own_read_exports(tmp_path: Path, engine: str, package: str) -> None:
    """They read folders, and so exports: after random changes, of both formats, with and without a key."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed{'; it takes no pyarrow from 26 on' if package == 'daft' else ''}")
    expected, schemas, folders = [], [], list[str]()
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        for version, keyed in ((2, False), (3, False), (3, True)):
            options: dict[str, Any] = {"primary_key": ["id"]} if keyed else {}
            name = f"t{version}{'k' if keyed else ''}"
            table = lake.create_table(f"shop.{name}", COLUMNS, properties={"format-version": version}, **options)
            story = Story(table, 40 + version, keyed, version)
            for number in range(8):
                story.step()
                able = {one.engine for one in readers(project(lake.context, table.id).metadata) if one.reads}
                if number % 2 and engine in able:
                    folder = f"{name}-{number}"
                    table.export_iceberg(tmp_path / folder)
                    folders.append(folder)
                    schemas.append(table.schema)
                    expected.append(rows(table.scan().to_arrow(), table.schema))
    assert {folder[:2] for folder in folders} == {"t2", "t3"}
    for found, schema, same, folder in zip(
        read_alone(engine, tmp_path, folders), schemas, expected, folders, strict=True
    ):
        assert rows(found, schema) == same, folder


def test_engines_read_every_type_as_column_and_as_partition(tmp_path: Path) -> None:
    columns = [
        ("id", "long", False), ("b", "boolean"), ("f", "float"), ("d", "date"), ("t", "time"), ("ts", "timestamp"),
        ("tz", "timestamptz"), ("s", "string"), ("u", "uuid"), ("x", "fixed[3]"), ("bin", "binary"),
        ("dec", "decimal(20, 3)"), ("l", "list<int>"), ("m", "map<string, long>"), ("st", "struct<a: int, b: string>"),
    ]  # fmt: skip
    values = {
        "b": True, "f": 1.5, "d": "2024-02-29", "t": "12:30:00.000001", "ts": "1969-12-31T23:59:59.999999",
        "tz": "2024-01-01T00:00:00+00:00", "s": "a" * 40, "u": "f79c3e09-677c-4bbd-a479-3f349cb785e7", "x": b"abc",
        "bin": b"\xff" * 20, "dec": "-12345678901234567.125", "l": [1, None], "m": {"k": 1}, "st": {"a": 1, "b": None},
    }  # fmt: skip
    partitions = ["b", "f", "d", "t", "ts", "tz", "s", "u", "x", "bin", "dec"]
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", columns)
        for number, name in enumerate(partitions):
            table.set_partitioning([name])
            table.append([{"id": 2 * number, **values}, {"id": 2 * number + 1}])
        table.set_partitioning(["bucket(7, u)", "truncate(3, s)", "truncate(5, dec)", "hour(ts)", "month(d)"])
        table.append([{"id": 100, **values}, {"id": 101}])
        made = project(lake.context, table.id)
        assert checker.check(made.location) == []
        expected = rows(table.scan().to_arrow(), table.schema)
        for name in ("pyiceberg", "duckdb"):
            assert rows(ENGINES[name](made.location), table.schema) == expected, name


def test_engines_read_nanoseconds_and_defaults_where_they_can(tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", [("id", "long", False), ("at", "timestamp_ns")])
        table.append([{"id": 1, "at": "2024-01-01T00:00:00.123456789"}])
        assert "datafusion (pyiceberg-core)" in assert_same_rows(lake, table)
        table.add_column("kind", "string", "plain")
        assert "datafusion (pyiceberg-core)" not in assert_same_rows(lake, table), "it takes the snapshot's schema"
        table.append([{"id": 2}])
        assert "datafusion (pyiceberg-core)" in assert_same_rows(lake, table)


@pytest.mark.postgres
@pytest.mark.s3
def test_processes_that_share_a_lake_share_its_projection(
    postgres_url: str, s3_url: str, s3_options: dict[str, str]
) -> None:
    from pyiceberg.table import StaticTable

    with Lake.open(postgres_url, storage=s3_url, storage_options=s3_options) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", COLUMNS)
        table.append([{"id": n} for n in range(10)])
        project(lake.context, table.id)
        table.delete_where("id = 3")
        with ThreadPoolExecutor(3) as pool:
            made, *others = pool.map(lambda _: project(lake.context, table.id), range(3))
        assert {one.location for one in others} == {made.location}
        properties = {
            "s3.endpoint": s3_options["endpoint"],
            "s3.access-key-id": "test",
            "s3.secret-access-key": "test",
            "s3.region": "us-east-1",
        }
        found = StaticTable.from_metadata(made.location, properties).scan().to_arrow()
        assert rows(found, table.schema) == rows(table.scan().to_arrow(), table.schema)
