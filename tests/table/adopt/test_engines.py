"""Adopted and moved segments through other engines: DuckDB, pyiceberg and Spark read what the lake reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import moulin
from moulin.errors import Corrupt, FailedPrecondition
from moulin.lake import Lake
from moulin.storage.bases import OPTIONS_VARIABLE
from moulin.table.table import Table

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = [("id", "long"), ("ts", "timestamptz"), ("name", "string"), ("amount", "double"), ("day", "date")]


def foreign(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "name": pa.array([None if n % 5 == 0 else f"n{n}" for n in numbers], pa.large_string()),
            "id": pa.array(numbers, pa.int32()),
            "amount": pa.array([n / 2 for n in numbers], pa.float32()),
            "ts": pa.array([START + timedelta(minutes=n) for n in numbers], pa.timestamp("us", "UTC")),
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "their files"
    for number in range(4):
        place = root / f"day=2026-01-0{number % 2 + 1}" / f"part {number}%=ü.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(foreign(number * 10, 10), place, row_group_size=4)
    return root


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        yield lake


@pytest.fixture
def events(lake: Lake, folder: Path, tmp_path: Path) -> Table:
    """Adopted files, appended rows, moved ones, deleted ones, and a column that came later."""
    table = lake.create_table("shop.events", COLUMNS, event_time="ts", partition_by=["day"])
    table.adopt(folder)
    table.append([{"id": 100 + n, "day": date(2026, 1, 3), "name": "own"} for n in range(5)])
    (tmp_path / "archive").mkdir()
    lake.add_base(tmp_path / "archive", name="archive")
    assert table.move("day = date '2026-01-03'", base="archive").segments == 1
    table.delete_where("id in (3, 11, 101)")
    table.add_column("state", "string", default="open")
    return table


def in_order(found: pa.Table) -> list[dict[str, Any]]:
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def test_duckdb_and_pyiceberg_read_the_same_rows(lake: Lake, events: Table, tmp_path: Path) -> None:
    from pyiceberg.table import StaticTable

    expected = in_order(events.scan().to_arrow())
    assert [row["id"] for row in expected] == [n for n in [*range(40), *range(100, 105)] if n not in (3, 11, 101)]
    connection = lake.duckdb()
    assert in_order(connection.sql("from shop.events").to_arrow_table()) == expected
    found = connection.sql("select count(*), max(id) from shop.events where day = date '2026-01-02' and id > 12")
    assert found.fetchall() == [(17, 39)]
    for name, copy in (("named", False), ("copied", True)):
        made = events.export_iceberg(tmp_path / name, copy=copy)
        theirs = StaticTable.from_metadata(made.metadata_location)
        assert in_order(theirs.scan().to_arrow()) == expected
        assert theirs.scan(row_filter="day = '2026-01-02' and id > 12").to_arrow().num_rows == 17


@pytest.mark.long
@pytest.mark.spark
def test_spark_reads_and_changes_the_same_rows(spark: Any, events: Table, lake: Lake, tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake", spark=spark) as other:
        found = other.sql("select id, name, day, state from shop.events where id > 5 order by id").collect()
        expected = [row for row in in_order(events.scan().to_arrow()) if row["id"] > 5]
        assert [row.asDict() for row in found] == [
            {name: row[name] for name in ("id", "name", "day", "state")} for row in expected
        ]
        other.sql("update shop.events set name = 'z' where id in (5, 102)")
        other.sql("delete from shop.events where id = 6")
    names = {row["id"]: row["name"] for row in events.scan().to_pylist()}
    assert (names[5], names[102], 6 in names) == ("z", "z", False)


def test_files_that_engines_would_misread_are_not_shown_to_them(lake: Lake, folder: Path, tmp_path: Path) -> None:
    table = lake.create_table("shop.plain", COLUMNS)
    table.adopt(folder)
    with pytest.raises(FailedPrecondition, match="'day' is not in the file, and the table is not partitioned by it"):
        table.export_iceberg(tmp_path / "out")
    table.compact(everything=True)
    table.export_iceberg(tmp_path / "out")
    other = lake.create_table("shop.reused", COLUMNS[:4])
    other.adopt(folder, hive=False)
    other.rename_column("name", "title")
    other.export_iceberg(tmp_path / "renamed")
    other.add_column("name", "string")
    with pytest.raises(FailedPrecondition, match="'name' has the name that another column"):
        other.export_iceberg(tmp_path / "reused")


@pytest.mark.s3
def test_files_of_a_bucket_are_adopted_and_segments_move_there(
    s3_url: str,
    s3_options: dict[str, str],
    s3_client: Any,
    tmp_path: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket, _, prefix = s3_url.removeprefix("s3://").partition("/")
    for file in folder.rglob("*.parquet"):
        s3_client.upload_file(str(file), bucket, f"{prefix}/theirs/{file.relative_to(folder)}".lstrip("/"))
    secret = "0f9a-never-stored-77"
    options = {name: {**s3_options, "secret_access_key": secret} for name in ("theirs", "archive")}
    with moulin.connect(tmp_path / "lake", base_options=options) as lake:
        lake.create_database("shop")
        lake.add_base(f"{s3_url}/theirs", name="theirs")
        lake.add_base(f"{s3_url}/archive", name="archive")
        table = lake.create_table("shop.t", COLUMNS, event_time="ts", partition_by=["day"])
        assert table.adopt(f"{s3_url}/theirs/**/*.parquet").rows == 40
        table.append([{"id": 100, "day": date(2026, 1, 3)}])
        assert table.move("id >= 100", base="archive").rows == 1
        table.delete_where("id < 3")
        expected = in_order(table.scan().to_arrow())
        assert in_order(lake.duckdb().sql("from shop.t").to_arrow_table()) == expected
        assert [one["id"] for one in expected] == [*range(3, 40), 100]
        stored = b"".join(p.read_bytes() for p in (tmp_path / "lake").rglob("*") if p.is_file())
        assert secret.encode() not in stored
        gone = f"{prefix}/theirs/day=2026-01-01/part 0%=ü.parquet".lstrip("/")
        s3_client.put_object(Bucket=bucket, Key=gone, Body=b"PAR1 other PAR1")
        with pytest.raises(moulin.errors.Corrupt, match="part 0"):
            table.scan().to_arrow()
        s3_client.upload_file(str(folder / "day=2026-01-01" / "part 0%=ü.parquet"), bucket, gone)
    monkeypatch.setenv(OPTIONS_VARIABLE, json.dumps(options))
    with moulin.connect(tmp_path / "lake", read_only=True) as replica:
        assert in_order(replica.table("shop.t").scan().to_arrow()) == expected


@pytest.mark.s3
def test_a_change_inside_a_file_of_a_bucket_is_noticed(
    s3_url: str, s3_options: dict[str, str], s3_client: Any, tmp_path: Path
) -> None:
    bucket, _, prefix = s3_url.removeprefix("s3://").partition("/")
    key, sink = f"{prefix}/changing/one.parquet".lstrip("/"), pa.BufferOutputStream()
    plain = pa.table({"id": pa.array(range(1000, 1100), pa.int64())})
    pq.write_table(plain, sink, compression="none", use_dictionary=False)
    before = sink.getvalue().to_pybytes()
    after = before.replace((1050).to_bytes(8, "little"), (1049).to_bytes(8, "little"), 1)
    assert after != before
    s3_client.put_object(Bucket=bucket, Key=key, Body=before)
    options = {"base_options": {"changing": s3_options}}
    with moulin.connect(tmp_path / "lake", **options) as lake:
        lake.create_database("shop")
        lake.add_base(f"{s3_url}/changing", name="changing")
        table = lake.create_table("shop.t", [("id", "long")])
        table.adopt(f"{s3_url}/changing")
        assert table.scan().to_arrow() == plain
        s3_client.put_object(Bucket=bucket, Key=key, Body=after)
        with pytest.raises(Corrupt, match="one.parquet was changed: its ETag is"):
            table.scan().to_arrow()
        with pytest.raises(Exception, match="one.parquet was changed: its ETag is"):
            lake.duckdb().sql("from shop.t").to_arrow_table()
        assert table.compact(everything=True).rows == 0  # and nothing of it is in a segment
    with moulin.connect(tmp_path / "lake", check_etags="off", **options) as lake:
        assert lake.table("shop.t").scan(where="id = 1049").count() == 2
        s3_client.put_object(Bucket=bucket, Key=key, Body=before)
    with moulin.connect(tmp_path / "lake", **options) as lake:
        assert lake.table("shop.t").scan().to_arrow() == plain


NAMES = st.sampled_from(["a", "b", "c", "d e", "f%", "ü"])
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "double": (pa.float64(), st.floats(width=64)),
    "float": (pa.float32(), st.floats(width=32)),
    "string": (pa.string(), st.text(max_size=30)),
    "binary": (pa.binary(), st.binary(max_size=20)),
    "boolean": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates()),
    "time": (pa.time64("us"), st.times().map(lambda t: time(t.hour, t.minute, t.second, t.microsecond))),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
    "decimal(12, 3)": (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3).map(Decimal)),
    "uuid": (pa.uuid(), st.uuids().map(lambda u: UUID(int=u.int))),
    "list<long>": (pa.list_(pa.int64()), st.lists(st.integers(0, 9) | st.none(), max_size=3)),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[tuple[str, str]], pa.Table, int]:
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    kinds = [draw(st.sampled_from(sorted(VALUES))) for _ in names]
    rows = draw(st.integers(1, 12))
    columns = []
    for kind in kinds:
        arrow, values = VALUES[kind]
        column = draw(st.lists(values | st.none(), min_size=rows, max_size=rows))
        storage = [None if v is None else v.bytes for v in column] if kind == "uuid" else column
        columns.append(pa.array(storage, pa.binary(16)).cast(arrow) if kind == "uuid" else pa.array(column, arrow))
    order = draw(st.permutations(range(len(names))))
    shuffled = pa.table([columns[at] for at in order], names=[names[at] for at in order])
    return list(zip(names, kinds, strict=True)), shuffled, draw(st.integers(1, 5))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_table=tables(), statistics=st.booleans())
def test_an_adopted_file_is_what_the_same_rows_appended_are(
    lake: Lake, tmp_path_factory: pytest.TempPathFactory, given_table: Any, statistics: bool
) -> None:
    columns, table, group = given_table
    place = tmp_path_factory.mktemp("files") / "f.parquet"
    pq.write_table(table, place, row_group_size=group, write_statistics=statistics, version="2.6")
    adopted = lake.create_table("shop.adopted", columns, replace=True)
    appended = lake.create_table("shop.appended", columns, replace=True)
    adopted.adopt(place.parent)
    appended.append(table)
    one, other = adopted.scan().to_arrow(), appended.scan().to_arrow()
    assert repr(one.to_pylist()) == repr(other.to_pylist())
    name = columns[0][0]
    for where in (f'"{name}" is null', f'"{name}" is not null'):
        assert adopted.scan(where=where).count() == appended.scan(where=where).count()
    adopted.compact(everything=True)
    assert repr(adopted.scan().to_arrow().to_pylist()) == repr(other.to_pylist())
