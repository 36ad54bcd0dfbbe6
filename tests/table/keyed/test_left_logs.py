"""Logs that a killed process left: the next reader sees every acknowledged row, whatever it asks for first."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.errors import PermissionDenied, Unavailable
from moulin.lake import Lake, locate
from moulin.meta.auth import AccessFile
from moulin.meta.config import ServeConfig
from moulin.meta.roles import Role
from moulin.meta.server.server import build_server
from moulin.table.keyed.left_logs import regions_in_logs
from moulin.table.table import Table
from tests.table.other_process import OtherProcess

ITEMS = [("id", "long", False), ("name", "string")]
KEYS = range(100)
PLACES = [
    pytest.param("folder", id="sqlite-disk"),
    pytest.param("store", id="sqlite-store"),
    pytest.param("shared", id="postgres-s3", marks=[pytest.mark.postgres, pytest.mark.s3]),
    pytest.param("shared disk", id="postgres-disk", marks=[pytest.mark.postgres, pytest.mark.s3]),
]

Address = dict[str, Any]


def item(number: int, name: str = "a") -> dict[str, Any]:
    return {"id": number, "name": name}


EXPECTED = [item(number) for number in KEYS]


@pytest.fixture(params=PLACES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Address:
    """The address of a lake that does not exist yet."""
    if "shared" not in request.param:
        settings = {"log_folder": "store"} if request.param == "store" else {}
        return {"uri": str(tmp_path / "lake"), "settings": settings}
    return {
        "uri": request.getfixturevalue("postgres_url"),
        "storage": request.getfixturevalue("s3_url"),
        "storage_options": request.getfixturevalue("s3_options"),
        "settings": {"log_folder": str(tmp_path / "logs")} if "disk" in request.param else {},
    }


@pytest.fixture
def left(address: Address, tmp_path_factory: pytest.TempPathFactory) -> Address:
    """That lake, with a hundred puts and a delete of a process that was killed. A folder is copied from the first."""
    if "storage" in address:
        leave(address)
        return address
    template = tmp_path_factory.getbasetemp() / f"left{len(address['settings'])}"
    if not template.exists():
        leave({**address, "uri": str(template)})
    shutil.copytree(template, address["uri"])
    return address


def make(address: Address, **more: Any) -> int:
    """A table of four regions with a row that is flushed; the version that has it."""
    with Lake.open(**address) as lake:
        lake.create_database("shop")
        properties = {"moulin.regions": "bucket(4, id)"}
        table = lake.create_table("shop.items", ITEMS, primary_key=["id"], properties=properties)
        table.put(item(0, "old"))
        table.put(item(1000, "old"))
        return table.flush()


@contextmanager
def writer(address: Address) -> Iterator[OtherProcess]:
    plain = {name: value for name, value in address.items() if name != "settings"}
    with OtherProcess(plain, "shop.items", merge_background="off", **address["settings"]) as process:
        yield process


def leave(address: Address) -> int:
    """A hundred puts and a delete by a process that is killed; the version before them."""
    version = make(address)
    with writer(address) as process:
        process.call("put_all", EXPECTED)
        process.call("delete", 1000)
    return version


def in_order(rows: Any) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: int(row["id"]))


def feed(table: Table, since: int) -> list[dict[str, Any]]:
    found = table.changes(since, net=True).to_arrow().to_pylist()
    return in_order({"id": row["id"], "name": row["name"]} for row in found if row["_change_type"] in AFTER)


AFTER = ("insert", "update_after")


def exported(table: Table, folder: Path) -> list[dict[str, Any]]:
    from pyiceberg.table import StaticTable

    from moulin.iceberg.projection.export import export

    made = export(table._context, table.id, str(folder), copy=True)
    return in_order(StaticTable.from_metadata(made.metadata_location).scan().to_arrow().to_pylist())


def fits(place: Any, name: str) -> bool:
    """Everything on SQLite; the servers take longer."""
    return (
        "shared" not in place.values[0]
        or name in {"shared": ("get", "flush"), "shared disk": ("scan",)}[place.values[0]]
    )


FIRST: dict[str, Callable[[Table], Any]] = {
    "get": lambda table: [table.get(number) for number in KEYS],
    "get_many": lambda table: table.get_many(list(KEYS)),
    "scan": lambda table: in_order(table.scan().to_pylist()),
    "ordered scan": lambda table: table.scan(ordered=True).to_pylist(),
    "flush": lambda table: table.flush() and in_order(table.at(version=table.version).scan().to_pylist()),
    "compact": lambda table: table.compact() and in_order(table.at(version=table.version).scan().to_pylist()),
}


def version_of(address: Address) -> int:
    with Lake.open(**address) as lake:
        return lake.version


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("address", "first"),
    [pytest.param(place.values[0], name, marks=place.marks) for place in PLACES for name in FIRST if fits(place, name)],
    indirect=["address"],
)
def test_the_first_read_of_the_next_process_shows_every_row(left: Address, first: str) -> None:
    address = left
    with Lake.open(**address) as lake:
        assert FIRST[first](lake.table("shop.items")) == EXPECTED
        assert all(region.owner == "" for region in lake.catalog.regions(lake.table("shop.items").id)), "given up again"


@pytest.mark.parametrize("address", PLACES[:2], indirect=True)
def test_readers_that_come_at_once_all_see_every_row(left: Address) -> None:
    """One of them flushes; the others wait for it."""
    started = threading.Barrier(4)

    def read(number: int) -> int:
        with Lake.open(**left) as lake:
            table = lake.table("shop.items")
            started.wait()
            return table.scan().count()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, range(4))) == [len(KEYS)] * 4


@pytest.mark.parametrize("address", PLACES[1:2], indirect=True)
def test_a_reader_whose_flush_is_overtaken_sees_every_row(left: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another saw the same log before it was claimed, and emptied segments that the first one had read."""
    from moulin.table.keyed import holder

    plain, overtaken = holder.put_rows, []

    def put_rows(*args: Any, **more: Any) -> None:
        plain(*args, **more)
        if more["region"] == 1 and not overtaken:  # the region with rows in a segment
            overtaken.append(True)
            with Lake.open(**left) as other:
                keyed = other.table("shop.items")._keyed()
                assert keyed is not None
                assert keyed._flush_left(other.catalog.regions(keyed.id)[0])

    monkeypatch.setattr(holder, "put_rows", put_rows)
    with Lake.open(**left) as lake:
        assert in_order(lake.table("shop.items").scan().to_pylist()) == EXPECTED


@pytest.mark.parametrize("address", PLACES[:2], indirect=True)
def test_a_reader_that_does_not_outwait_another_ones_flush_sees_every_row(left: Address) -> None:
    """Another process has claimed a log to flush it, and takes longer than readers wait."""
    impatient = {**left, "settings": {**left["settings"], "lock_seconds": 0.1}}
    with Lake.open(**left) as slow, Lake.open(**impatient) as lake:
        keyed = slow.table("shop.items")._keyed()
        assert keyed is not None
        writer = keyed._claim(slow.catalog.regions(keyed.id)[0], flushing=True)
        try:
            table = lake.table("shop.items")
            assert in_order(table.scan().to_pylist()) == EXPECTED
            assert table.scan().count() == len(KEYS)
            assert [table.get(number) for number in KEYS] == EXPECTED
        finally:
            writer.close()


@pytest.mark.parametrize("address", PLACES[:2], indirect=True)
def test_readers_of_versions_are_told_of_rows_that_another_process_holds_up(left: Address, tmp_path: Path) -> None:
    """Another process has claimed a log to flush it, and does nothing: no version has its rows."""
    impatient = {**left["settings"], "lock_seconds": 0.1}
    version = version_of(left)
    with Lake.open(**left) as slow, moulin.connect(left["uri"], **impatient) as lake:
        keyed = slow.table("shop.items")._keyed()
        assert keyed is not None
        writer = keyed._claim(slow.catalog.regions(keyed.id)[0], flushing=True)
        table = lake.table("shop.items")
        reads: list[Callable[[], Any]] = [
            lambda: table.changes(version),
            lambda: table.export_iceberg(tmp_path / "export"),
            lambda: table.take([0]),
            lake.flush,
        ]
        try:
            for read in [*reads, *reads]:
                with pytest.raises(Unavailable, match="are in no version yet: .* has taken over the log of region"):
                    read()
                assert table.scan().count() == len(KEYS)
            with pytest.raises(duckdb.Error, match="are in no version"):
                lake.duckdb().sql("select * from shop.items").fetchall()
            assert table.at(version).scan().count() < len(KEYS)
            assert table.stats().rows < len(KEYS)
        finally:
            writer.close()


@pytest.mark.parametrize("address", PLACES[:2], indirect=True)
def test_rows_that_were_held_up_are_read_once_they_are_flushed(left: Address) -> None:
    impatient = {**left, "settings": {**left["settings"], "lock_seconds": 0.1}}
    version = version_of(left)
    with Lake.open(**left) as slow, Lake.open(**impatient) as lake:
        keyed = slow.table("shop.items")._keyed()
        assert keyed is not None
        region = slow.catalog.regions(keyed.id)[0]
        writer = keyed._claim(region, flushing=True)
        table = lake.table("shop.items")
        with pytest.raises(Unavailable):
            table.changes(version)
        writer.rotate()
        while (memtable := writer.oldest()) is not None:
            keyed._flush_one(writer, memtable)
        keyed._end(writer)
        assert feed(table, version) == EXPECTED


@pytest.mark.parametrize("address", PLACES[:2], indirect=True)
def test_counts_feeds_and_statistics_show_them_too(left: Address) -> None:
    version = version_of(left)
    with Lake.open(**left) as lake:
        table = lake.table("shop.items")
        assert feed(table, version) == EXPECTED
        assert table.scan().count() == len(KEYS)
        assert table.stats().rows == len(KEYS)


@pytest.mark.parametrize("address", PLACES[:2], indirect=True)
def test_the_flush_of_another_region_covers_all(left: Address) -> None:
    """As does a put before any read: it shows its own region and all others."""
    with Lake.open(**left) as lake:
        table = lake.table("shop.items")
        table.put(item(5000))
        version = table.flush()
        assert in_order(table.at(version=version).scan().to_pylist()) == [*EXPECTED, item(5000)]


def test_a_living_owner_is_left_alone(address: Address) -> None:
    """A reader neither fences it nor shows what it has not flushed."""
    make(address)
    with writer(address) as process, Lake.open(**address) as lake:
        process.call("put", item(1))
        table = lake.table("shop.items")
        assert table.get(1) is None
        table.flush()
        table.compact()
        assert lake.table("shop.items", read_only=True).get(1) is None
        process.call("put", item(2))
        process.call("flush")
        assert [table.get(1), table.get(2)] == [item(1), item(2)]


@pytest.mark.parametrize("address", PLACES[:2], indirect=True)
def test_a_reader_that_was_there_before_sees_them_after_a_flush(address: Address) -> None:
    make(address)
    with Lake.open(**address) as lake:
        table = lake.table("shop.items")
        assert table.get(1) is None
        with writer(address) as process:
            process.call("put", item(1))
        table.flush()
        assert table.get(1) == item(1)


@pytest.mark.parametrize("address", PLACES[:3], indirect=True)
def test_a_read_only_table_shows_them_and_writes_nothing(left: Address) -> None:
    address, version = left, version_of(left)
    with Lake.open(**address) as lake:
        table = lake.table("shop.items", read_only=True)
        before = lake.catalog.regions(table.id)
        assert [table.get(number) for number in KEYS] == EXPECTED
        assert table.get(1000) is None
        assert table.get_many([1, 1000, 99]) == [item(1), None, item(99)]
        assert in_order(table.scan().to_pylist()) == EXPECTED
        assert table.scan().count() == len(KEYS)
        assert table.scan(version=version).count() == 2, "versions show versions"
        assert lake.catalog.regions(table.id) == before
        assert lake.version == version
        lake.table("shop.items").flush()  # what others flush is the same rows
        assert in_order(table.scan().to_pylist()) == EXPECTED
        table.refresh()
        assert in_order(table.scan().to_pylist()) == EXPECTED


@pytest.mark.parametrize("address", PLACES[:3], indirect=True)
def test_a_replica_shows_them_and_writes_nothing(left: Address) -> None:
    address, version = left, version_of(left)
    storage = address.get("storage", address["uri"])
    options = {"storage_options": address.get("storage_options")}
    settings = {name: value for name, value in address["settings"].items() if value != "store"}
    with moulin.connect(storage, read_only=True, **options, **settings) as replica:
        table = replica.table("shop.items")
        assert [table.get(number) for number in KEYS] == EXPECTED
        assert table.scan().count() == len(KEYS)
        assert replica.version == version
        with Lake.open(**address) as lake:
            lake.table("shop.items").put(item(5000))
        table.refresh()
        assert in_order(table.scan().to_pylist()) == [*EXPECTED, item(5000)]


@pytest.mark.parametrize("address", PLACES[:3], indirect=True)
def test_a_read_token_shows_them_and_never_tries_to_write(left: Address, tmp_path: Path) -> None:
    address, version = left, version_of(left)
    tokens = tmp_path / "access.toml"
    access = AccessFile(tokens)
    secrets = {role: access.create(role.name.lower(), role) for role in (Role.READ, Role.WRITE)}
    with Lake.open(**address) as served:
        serve = ServeConfig(bind="127.0.0.1:0", http_bind="", threads=4, auth="on", access_file=str(tokens))
        server = build_server(served, serve).start()
        reach = {"storage": address.get("storage"), "storage_options": address.get("storage_options")}
        try:

            def connect(role: Role) -> Lake:
                return moulin.connect(f"grpc://{server.address}", token=secrets[role], **reach, **address["settings"])

            with connect(Role.READ) as lake:
                table = lake.table("shop.items")
                assert [table.get(number) for number in KEYS] == EXPECTED
                assert table.scan().count() == len(KEYS)
                assert served.version == version
                with pytest.raises(PermissionDenied):
                    table.put(item(7))
                with connect(Role.WRITE) as other:
                    assert other.table("shop.items").scan().count() == len(KEYS)
                    assert served.version > version
                    other.table("shop.items").put(item(1, "new"))
                assert table.get(1) == item(1, "new")
                assert table.scan().count() == len(KEYS)
        finally:
            server.stop(5)


@pytest.mark.parametrize("address", PLACES[:2], indirect=True)
def test_an_export_after_a_flush_shows_them(left: Address, tmp_path: Path) -> None:
    with Lake.open(**left) as lake:
        table = lake.table("shop.items")
        table.flush()
        assert exported(table, tmp_path / "export") == EXPECTED


@pytest.mark.parametrize("address", PLACES[1:3], indirect=True)
def test_a_log_in_a_store_whose_owner_may_live_elsewhere_is_read_and_not_taken(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are shown, and go over into versions as its owner flushes; only `take_over` fences it."""
    make(address)
    monkeypatch.setattr("moulin.table.keyed.log.owner.is_alive", lambda owner: None)
    with writer(address) as process, Lake.open(**address) as lake:
        for number in range(8):
            process.call("put", item(number))
        table = lake.table("shop.items")
        epochs = [region.epoch for region in lake.catalog.regions(table.id)]
        assert in_order(table.scan().to_pylist())[:8] == EXPECTED[:8]
        process.call("put", item(3, "new"))
        process.call("flush")
        assert table.get(3) == item(3, "new"), "what was flushed counts, not what was read before"
        process.call("put", item(4, "newer"))
        process.kill()
        table.flush()
        assert [region.epoch for region in lake.catalog.regions(table.id)] == epochs
        table.flush(take_over=True)
        assert table.at(version=table.version).get(4) == item(4, "newer")


@pytest.mark.parametrize("address", PLACES[:1], indirect=True)
def test_a_process_of_the_same_number_is_not_the_owner(address: Address) -> None:
    """A pid is used again: the time at which a process began tells two of them apart."""
    from moulin.table.keyed.log import owner

    mine = owner.this_process("always")
    assert owner.is_alive(mine) is True
    assert owner.is_alive(mine.replace(f"process {os.getpid()} ", "process 999999999 ")) is False
    fields = mine.rpartition("[")[2].rstrip("]").split()
    assert owner.is_alive(mine.replace(fields[2], "1")) is False, "another process had this pid"
    assert owner.is_alive(mine.replace(fields[0], "0" * 8)) is None, "another machine, or before it was started again"
    assert owner.is_alive("process 7 on elsewhere") is None, "as earlier versions wrote it"


@pytest.mark.parametrize("log_folder", ["", "store"])
@pytest.mark.parametrize("regions", [{}, {"moulin.regions": "bucket(4, id)"}], ids=["whole", "split"])
def test_a_recovered_lake_shows_logs_of_which_nothing_was_flushed(
    tmp_path: Path, regions: dict[str, str], log_folder: str
) -> None:
    """Manifests know a region only once something of it was flushed: the logs tell which keys are theirs."""
    address: Address = {"uri": str(tmp_path / "lake"), "settings": {"log_folder": log_folder}}
    with Lake.open(**address) as lake:
        lake.create_database("shop")
        lake.create_table("shop.items", ITEMS, primary_key=["id"], properties=regions)
    with writer(address) as process:
        process.call("put_all", EXPECTED)
    for file in (tmp_path / "lake").glob("catalog.sqlite*"):
        file.unlink()
    uri, store, config = locate(address["uri"], None, None, address["settings"])
    recover(store, uri, config, find_regions=partial(regions_in_logs, store, config))
    with Lake.open(**address) as lake:
        table = lake.table("shop.items")
        assert in_order(table.scan().to_pylist()) == EXPECTED
        table.put_batch([item(number, "again") for number in KEYS])
        table.flush(take_over=True)
        assert in_order(table.scan().to_pylist()) == [item(number, "again") for number in KEYS]


def test_regions_of_a_recovered_lake_never_take_over_a_log_that_was_not_found(tmp_path: Path) -> None:
    """It lies where the recovery did not look, and holds rows of another region than the next one of its number."""
    address: Address = {"uri": str(tmp_path / "lake"), "settings": {"log_folder": str(tmp_path / "logs")}}
    with Lake.open(**address) as lake:
        lake.create_database("shop")
        properties = {"moulin.regions": "bucket(4, id)"}
        lake.create_table("shop.items", ITEMS, primary_key=["id"], properties=properties)
    with writer(address) as process:
        process.call("put_all", EXPECTED)
    for file in (tmp_path / "lake").glob("catalog.sqlite*"):
        file.unlink()
    uri, store, config = locate(address["uri"], None, None, None)
    recover(store, uri, config)
    with Lake.open(**address) as lake:
        table = lake.table("shop.items")
        table.put_batch([item(number, "new") for number in reversed(KEYS)])
        table.flush()
        assert in_order(table.scan().to_pylist()) == [item(number, "new") for number in KEYS]
