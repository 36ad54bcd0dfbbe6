"""`lake.duckdb()`: which rows a connection shows, of which version, and for how long."""

from __future__ import annotations

import gc as garbage
from pathlib import Path
from typing import Any

import duckdb
import pytest

import moulin
from moulin.catalog.sql.living import survey
from moulin.errors import Closed
from moulin.lake import Lake
from tests.duck.conftest import rows
from tests.table import every_type

EVENTS = [("id", "long", False), ("name", "string"), ("amount", "double")]


def events(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": n, "name": f"n{n}", "amount": n / 2} for n in numbers]


def seen(connection: Any, text: str = "SELECT id FROM d.t ORDER BY id") -> list[Any]:
    return [row[0] for row in connection.execute(text).fetchall()]


@pytest.mark.parametrize("kind", every_type.VALUES)
def test_values_of_every_type_are_those_of_a_scan(lake: Lake, kind: str) -> None:
    table = lake.create_table("d.t", every_type.columns(kind))
    table.append([every_type.row(kind, 1, 0), every_type.row(kind, 2, 1), every_type.row(kind, 3, None)])
    found = rows(lake.duckdb(), "FROM d.t ORDER BY id")
    assert [every_type.shown(row) for row in found] == [every_type.shown(row) for row in table.scan().to_pylist()]


def test_nanoseconds_are_whole_and_those_of_a_zone_rounded(lake: Lake) -> None:
    table = lake.create_table("d.t", [("moment", "timestamp_ns"), ("zoned", "timestamptz_ns")])
    moment = moulin.NanoDatetime.of(1_700_000_000_123_456_789, zoned=False)
    table.append([{"moment": moment, "zoned": moulin.NanoDatetime.of(1_700_000_000_123_456_789, zoned=True)}])
    found = lake.duckdb().execute("SELECT epoch_ns(moment), epoch_us(zoned) FROM d.t").fetchall()
    assert found == [(1_700_000_000_123_456_789, 1_700_000_000_123_456)]


def test_lists_of_a_fixed_length_are_arrays(lake: Lake) -> None:
    import pyarrow as pa

    table = lake.create_table("d.t", pa.schema([("v", pa.list_(pa.float32(), 2))]))
    table.append(pa.table({"v": pa.array([[3.0, 4.0], None], pa.list_(pa.float32(), 2))}))
    found = lake.duckdb().execute("SELECT typeof(v), array_distance(v, [0, 0]::FLOAT[2]) FROM d.t").fetchall()
    assert found == [("FLOAT[2]", 5.0), ("FLOAT[2]", None)]


def test_columns_that_are_named_like_those_of_duckdb_are_the_tables_own(lake: Lake) -> None:
    table = lake.create_table("d.t", [("file_row_number", "long"), ("filename", "string"), ("sp ace\"'", "int")])
    table.append([{"file_row_number": n, "filename": "x", "sp ace\"'": n} for n in (7, 8)])
    table.delete_where("file_row_number = 7")
    assert rows(lake.duckdb(), "FROM d.t") == [{"file_row_number": 8, "filename": "x", "sp ace\"'": 8}]


def test_deleted_rows_are_left_out_of_many_segments(lake: Lake) -> None:
    table = lake.create_table("d.t", EVENTS)
    for start in range(0, 50, 10):
        table.append(events(*range(start, start + 10)))
    table.delete_where("id in (3, 10, 17, 24) or id between 30 and 39")
    connection = lake.duckdb()
    assert seen(connection) == sorted(row["id"] for row in table.scan(["id"]).to_pylist())
    assert seen(connection, "SELECT count(*) FROM d.t WHERE id > 20") == [18]


def test_a_table_of_many_segments_is_listed_when_it_is_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moulin.duck.views._WRITTEN_OUT", 1)
    table = lake.create_table("d.t", EVENTS)
    for number in range(4):
        table.append(events(number))
    table.delete_where("id = 2")
    lake.create_view("d.v", ["t"])
    connection = lake.duckdb()
    assert seen(connection) == seen(connection, "SELECT id FROM d.v ORDER BY id") == [0, 1, 3]
    assert seen(connection.cursor()) == [0, 1, 3]
    table.append(events(4))
    assert seen(connection) == [0, 1, 3]
    assert seen(lake.duckdb(connection)) == [0, 1, 3, 4]


def test_an_empty_table_has_columns_and_no_rows(lake: Lake) -> None:
    lake.create_table("d.t", EVENTS)
    found = lake.duckdb().execute("FROM d.t")
    assert [column[0] for column in found.description] == ["id", "name", "amount"]
    assert found.fetchall() == []


def test_rows_that_were_put_and_not_flushed_are_seen(lake: Lake) -> None:
    table = lake.create_table("d.t", EVENTS, primary_key=["id"])
    table.put_batch(events(1, 2, 3))
    connection = lake.duckdb()
    table.put({"id": 2, "name": "other", "amount": 0.0})
    table.delete(3)
    assert rows(connection, "FROM d.t ORDER BY id") == events(1, 2, 3)
    lake.duckdb(connection)
    assert rows(connection, "FROM d.t ORDER BY id") == [events(1)[0], {"id": 2, "name": "other", "amount": 0.0}]


def test_a_connection_shows_one_version_until_it_is_brought_to_the_newest(lake: Lake) -> None:
    table = lake.create_table("d.t", EVENTS)
    lake.create_table("d.gone", EVENTS)
    table.append(events(1))
    connection = lake.duckdb()
    connection.execute("CREATE TABLE own AS SELECT 5 AS x")
    table.append(events(2))
    table.rename_column("name", "called")
    lake.create_table("d.new", EVENTS).append(events(9))
    lake.drop_table("d.gone")
    assert seen(connection) == [1]
    assert seen(connection, "SELECT name FROM d.t") == ["n1"]
    assert seen(connection.cursor()) == [1]
    assert lake.duckdb(connection) is connection
    assert seen(connection) == [1, 2]
    assert seen(connection, "SELECT called FROM d.t ORDER BY id") == ["n1", "n2"]
    assert seen(connection, "SELECT id FROM d.new") == [9]
    assert seen(connection, "SELECT x FROM own") == [5]
    with pytest.raises(duckdb.CatalogException):
        connection.execute("FROM d.gone")


def test_older_versions_are_read_by_number_and_by_time(lake: Lake) -> None:
    table = lake.create_table("d.t", EVENTS)
    first = table.append(events(1)).version
    then = table.history()[0].timestamp_ns
    table.append(events(2))
    table.rename_column("name", "called")
    connection = lake.duckdb()
    assert rows(connection, f"FROM moulin_table('d.t', version := {first})") == events(1)
    assert seen(connection, f"SELECT id FROM moulin_table('d.t', as_of := make_timestamptz({then // 1000 + 1}))") == [1]
    joined = f"SELECT t.id FROM d.t ANTI JOIN moulin_table('d.t', version => {first}) AS o ON o.id = t.id"
    assert seen(connection, joined.replace("d.t ANTI", "d.t AS t ANTI")) == [2]
    with pytest.raises(duckdb.Error, match="Table d.x does not exist"):
        connection.execute("FROM moulin_table('d.x')")
    for wrong in ("FROM moulin_table('t')", "FROM moulin_table('t', version := 1)"):
        with pytest.raises(duckdb.Error, match="database.table"):
            connection.execute(wrong)
    with pytest.raises(duckdb.Error, match="version or as_of"):
        connection.execute("FROM moulin_table('d.t', version := 1, as_of := now())")


def test_views_unite_their_tables_by_name(lake: Lake) -> None:
    lake.create_table("d.a", EVENTS).append(events(1))
    lake.create_table("d.b", [("amount", "double"), ("id", "long"), ("more", "int")]).append(
        [{"id": 2, "amount": 1.0, "more": 3}]
    )
    b = lake.table("d.b")
    b.append([{"id": 3, "amount": 1.0, "more": 4}, {"id": 4, "amount": 1.0, "more": 4}])
    b.delete_where("id = 3")
    lake.create_view("d.v", ["a", "b"])
    assert rows(lake.duckdb(), "FROM d.v ORDER BY id") == [
        {"id": 1, "name": "n1", "amount": 0.5, "more": None},
        {"id": 2, "name": None, "amount": 1.0, "more": 3},
        {"id": 4, "name": None, "amount": 1.0, "more": 4},
    ]


def test_names_that_differ_in_case_only_are_reached_by_moulin_table(lake: Lake) -> None:
    lake.create_table("d.t", EVENTS).append(events(1))
    lake.create_table("d.T", EVENTS).append(events(2))
    lake.create_database("pg_catalog")
    lake.create_table("pg_catalog.t", EVENTS).append(events(3))
    connection = lake.duckdb()
    found = [seen(connection, f"SELECT id FROM moulin_table('{name}')") for name in ("d.t", "d.T", "pg_catalog.t")]
    assert found == [[1], [2], [3]]


def test_a_connection_keeps_what_it_shows_from_clean_up(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("d")
        table = lake.create_table("d.t", EVENTS)
        table.append(events(1))
        connection, shown = lake.duckdb(), table.version
        table.append(events(2))
        assert survey(tmp_path / "lake" / "catalog.sqlite").oldest_pin() == shown
        connection.close()
        del connection
        garbage.collect()
        assert survey(tmp_path / "lake" / "catalog.sqlite").oldest_pin() is None


def test_a_connection_ends_with_its_lake(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("d")
        lake.create_table("d.t", EVENTS)
        connection, own = lake.duckdb(), lake.duckdb(duckdb.connect())
    with pytest.raises(duckdb.ConnectionException):
        connection.execute("FROM d.t")
    with pytest.raises(duckdb.Error, match="The lake was closed"):
        own.execute("FROM moulin_table('d.t')")
    with pytest.raises(Closed):
        lake.duckdb()


@pytest.mark.s3
def test_objects_of_a_store_are_read_through_moulin(tmp_path: Path, s3_url: str, s3_options: dict[str, str]) -> None:
    with moulin.connect(tmp_path / "lake", storage=s3_url, storage_options=s3_options) as lake:
        lake.create_database("d")
        table = lake.create_table("d.t", EVENTS)
        table.append(events(1, 2))
        table.append(events(3, 4))
        table.delete_where("id = 3")
        connection = lake.duckdb()
        assert rows(connection, "FROM d.t ORDER BY id") == events(1, 2, 4)
        assert seen(connection, "SELECT count(*) FROM d.t WHERE amount > 1") == [1]
