"""Lakes made by earlier versions open, read, write, upgrade, are checked, mirrored, recovered and exported."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin import Lake
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.config import Config
from moulin.iceberg.projection.projection import project
from moulin.mirror import Mirror
from moulin.model.otel import is_former
from moulin.pipeline.nursery.nursery import Nursery
from moulin.storage import open_store
from tests.compat.conftest import OldLake, canonical, rows_of
from tests.contract.samples import view_query
from tests.interop.engines import duckdb

EVENT_TABLES = ("shop.events", "shop.types", "shop.north", "shop.south", "shop.east")
KEYED_TABLES = ("shop.orders", "shop.prices")


def expect(lake: Lake, expected: dict[str, Any], tables: tuple[str, ...] = EVENT_TABLES) -> None:
    for name in tables:
        assert rows_of(lake, name) == canonical(expected["tables"][name]), name


def test_every_table_reads_as_it_was(old_lake: OldLake) -> None:
    """Keyed ones with what their logs hold, which is in no segment."""
    with old_lake.connect() as lake:
        expect(lake, old_lake.expected, EVENT_TABLES + KEYED_TABLES)
        for name in KEYED_TABLES:
            lake.table(name).flush()
            table = lake.table(name)
            assert rows_of(lake, name, table.version) == canonical(old_lake.expected["tables"][name])


def test_the_first_look_up_by_key_finds_what_the_log_holds(old_lake: OldLake) -> None:
    with old_lake.connect() as lake:
        orders, prices = lake.table("shop.orders"), lake.table("shop.prices")
        expected = {row["id"]: row for row in old_lake.expected["tables"]["shop.orders"]}
        for key in (1000, 2007, 3, 50, 0):
            found = orders.get(key)
            assert ([] if found is None else canonical([found])) == canonical(
                r for k, r in expected.items() if k == key
            )
        assert prices.get(("s0", date(2026, 1, 1))) == {"shop": "s0", "day": date(2026, 1, 1), "price": -1.0}
        assert prices.get(("s9", date(2026, 2, 2))) is None


def test_every_version_reads_as_it_was(old_lake: OldLake) -> None:
    with old_lake.connect() as lake:
        for name, versions in old_lake.expected["versions"].items():
            for version, rows in versions.items():
                assert rows_of(lake, name, int(version)) == canonical(rows), (name, version)


def test_tags_indexes_views_and_request_ids_are_there(old_lake: OldLake) -> None:
    expected = old_lake.expected
    with old_lake.connect() as lake:
        events = lake.table("shop.events")
        assert events.tags() == expected["tags"]["shop.events"]
        assert sorted(index.name for index in events.indexes()) == expected["indexes"]["shop.events"]
        user = 2**40 + 3
        found = [row for row in expected["tables"]["shop.events"] if row["user"] == user]
        assert canonical(events.scan(where=f"user = {user}").to_arrow().to_pylist()) == canonical(found)
        for name, members in expected["views"].items():
            assert [member.name for member in lake.view(name).members] == members
        for name, text in expected.get("queries", {}).items():
            query = lake.view(name).query
            assert query is not None
            assert query.sql("spark") == text
        for request, version in expected["requests"].items():
            assert events.append([], request_id=request).version == version
        assert {one.name for one in lake.databases()} >= {"shop", "spare", "otel"}


def test_views_of_today_can_be_made_and_recovered(old_lake: OldLake, tmp_path: Path) -> None:
    with old_lake.connect() as lake:
        lake.catalog.create_view("shop", "everywhere", [], query=view_query("select 1 as n"), replace=True)
        made = lake.view("shop.everywhere")
        assert made.query == view_query("select 1 as n")
    new = tmp_path / "new" / "catalog.sqlite"
    new.parent.mkdir()
    recover(open_store(str(old_lake.folder)), f"sqlite:///{new}", Config())
    with moulin.connect(new.parent, storage=str(old_lake.folder)) as lake:
        assert lake.view("shop.everywhere") == made


def test_rows_can_be_written_deleted_and_compacted(old_lake: OldLake) -> None:
    rows = {name: [json.loads(row) for row in canonical(rows)] for name, rows in old_lake.expected["tables"].items()}
    with old_lake.connect() as lake:
        events = lake.table("shop.events")
        new = {"ts": "2026-05-05T05:05:05+00:00", "user": 77, "action": "late", "country": "it"}
        events.append([new])
        events.delete_where("country = 'fr' and user = 1")
        left = [row for row in rows["shop.events"] if not (row["country"] == "fr" and row["user"] == 1)]
        events.compact(everything=True)
        events.add_column("more", "int", default=5)
        assert rows_of(lake, "shop.events") == canonical({**row, "more": 5} for row in [*left, new])
        orders = lake.table("shop.orders")
        orders.put({"id": 5000, "total": None, "note": "after", "vip": None})
        orders.delete(5)
        assert orders.get(5) is None
        assert orders.get(5000)["note"] == "after"
        orders.flush()
        orders.compact(everything=True)
        kept = {row["id"]: row for row in rows["shop.orders"] if row["id"] != 5}
        kept[5000] = {"id": 5000, "total": None, "note": "after", "vip": None}
        assert rows_of(lake, "shop.orders") == canonical(kept.values())
        lake.table("shop.prices").put({"shop": "new", "day": date(2026, 1, 1), "price": 0.5})
        prices = [*rows["shop.prices"], {"shop": "new", "day": "2026-01-01", "price": 0.5}]
        assert rows_of(lake, "shop.prices") == canonical(prices)


def test_streams_go_on_where_they_were(old_lake: OldLake) -> None:
    logs = old_lake.expected["logs"]
    with old_lake.connect() as lake:
        table = lake.table("otel.logs")

        def bodies() -> list[str]:
            return sorted(table.scan(columns=["body"]).to_arrow()["body"].to_pylist())

        assert bodies() == logs["merged"]
        assert is_former(table.schema), "it keeps its columns"
        assert Nursery(lake, spark=False).run_once().rows == len(logs["waiting"])
        assert bodies() == sorted(logs["merged"] + logs["waiting"])
        assert lake.own_catalog().ingest.validate_token(old_lake.expected["token"]).name == "default"


def test_the_lake_is_whole(old_lake: OldLake) -> None:
    with old_lake.connect() as lake:
        assert check(lake.own_catalog()) == []
        collect(lake.own_catalog())
        expect(lake, old_lake.expected)


def test_another_engine_reads_its_tables_where_it_lies_now(old_lake: OldLake) -> None:
    """The lake was made in another folder: what it had projected there names files that are not there."""
    with old_lake.connect() as lake:
        for name in ("shop.events", "shop.north"):
            found = project(lake.context, lake.table(name).id)
            assert canonical(duckdb(found.location).to_pylist()) == canonical(old_lake.expected["tables"][name])


def test_a_replica_and_a_mirror_show_the_same_rows(old_lake: OldLake, tmp_path: Path) -> None:
    with moulin.connect(old_lake.folder, read_only=True) as replica:
        expect(replica, old_lake.expected, EVENT_TABLES + KEYED_TABLES)
    with old_lake.connect() as lake:
        Mirror(lake, str(tmp_path / "mirror")).run_once()
    with moulin.connect(tmp_path / "mirror", read_only=True) as mirrored:
        expect(mirrored, old_lake.expected)


def test_its_catalog_can_be_rebuilt_from_its_manifests(old_lake: OldLake, tmp_path: Path) -> None:
    new = tmp_path / "new" / "catalog.sqlite"
    new.parent.mkdir()
    recover(open_store(str(old_lake.folder)), f"sqlite:///{new}", Config())
    with moulin.connect(new.parent, storage=str(old_lake.folder)) as lake:
        expect(lake, old_lake.expected, EVENT_TABLES + KEYED_TABLES)


def test_dropped_tables_can_be_brought_back(old_lake: OldLake) -> None:
    with old_lake.connect() as lake:
        for name, rows in old_lake.expected["dropped"].items():
            lake.resurrect_table(name)
            assert rows_of(lake, name) == canonical(rows)


def indexes_of(lake: Lake) -> dict[str, str]:
    """The indexes of a catalog by their names, with the statement that makes each."""
    pool = lake.own_catalog().pool
    with pool.read() as connection:
        query = (
            "select name, sql from sqlite_master where type = 'index' and sql is not null"
            if connection.dialect.name == "sqlite"
            else "select indexname, indexdef from pg_indexes where schemaname = current_schema()"
        )
        return {name: " ".join(sql.split()) for name, sql in connection.exec_driver_sql(query)}


def test_a_new_catalog_has_the_indexes_of_an_upgraded_one(
    old_lake: OldLake, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Partial ones with their conditions: a name is free again once its object is dropped."""
    with old_lake.connect() as lake:
        upgraded = indexes_of(lake)
    uri = str(tmp_path / "new") if old_lake.storage is None else request.getfixturevalue("postgres_url")
    storage = None if old_lake.storage is None else str(tmp_path / "files")
    with moulin.connect(uri, storage=storage) as lake:
        assert indexes_of(lake) == upgraded
    assert any(" WHERE " in sql for sql in upgraded.values())
