"""Readers and clean-up: what is being read stays, whoever cleans up, and what nobody reads goes."""

from __future__ import annotations

import gc
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from moulin.catalog.upkeep.gc import collect
from moulin.errors import NotFound
from moulin.lake import Lake
from moulin.meta.client.client import open_lake as open_remote
from moulin.meta.config import ServeConfig
from moulin.meta.server.server import build_server
from moulin.table.table import Table
from tests.table.other_process import OtherProcess

COLUMNS = [("id", "long", False), ("text", "string")]
ROWS = 4000
NOW: dict[str, Any] = {"history_keep": 0, "orphan_grace": 0, "byte_floor": 0}


def data(first: int) -> pa.Table:
    ids = list(range(first, first + ROWS // 4))
    return pa.table({"id": ids, "text": [f"row {n}" for n in ids]})


class Place:
    """A lake, and how to open it once more, as another process would."""

    def __init__(self, open_it: Callable[..., Lake]) -> None:
        self.open_it = open_it
        self.lake = open_it(scan_batch_rows=100, scan_ahead_bytes=1)
        self.lake.create_database("shop")

    def table(self, **options: Any) -> Table:
        table = self.lake.create_table("shop.t", COLUMNS, **options)
        for part in range(4):
            table.append(data(part * ROWS // 4))
        if options:
            table.flush()
        return table

    def overwrite_and_clean_up(self) -> None:
        """Nothing of what there was is part of the newest version, and clean-up keeps nothing else."""
        with self.open_it() as other:
            other.table("shop.t").overwrite([{"id": -1, "text": "new"}])
            collect(other.own_catalog(), **NOW)


@pytest.fixture(params=["folder", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    uri, storage = str(tmp_path / "lake"), None
    if request.param == "postgres":
        uri, storage = request.getfixturevalue("postgres_url"), str(tmp_path / "lake")
    made = Place(lambda **settings: Lake.open(uri, storage=storage, settings=settings))
    yield made
    made.lake.close()


def files(lake: Lake) -> list[str]:
    return [info.path for info in lake.store.list("tables") if info.path.endswith(".parquet")]


READERS: dict[str, Callable[[Table], Iterator[pa.RecordBatch]]] = {
    "to_batches": lambda table: table.scan().to_batches(),
    "to_reader": lambda table: iter(table.scan().to_reader()),
    "where": lambda table: table.scan(where="id >= 0").to_batches(),
    "limit": lambda table: table.scan(limit=ROWS).to_batches(),
    "changes": lambda table: table.changes(table.history()[-1].version).to_batches(),
    "old version": lambda table: table.at(version=table.version).scan().to_batches(),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_under_way_gets_all_its_rows(place: Place, reader: str) -> None:
    table = place.table()
    batches = READERS[reader](table)
    got = [next(batches)]
    place.overwrite_and_clean_up()
    got += list(batches)
    assert sorted(n for batch in got for n in batch.column("id").to_pylist()) == list(range(ROWS))
    with place.open_it() as other:
        place.lake.context.pins._release_idle()  # else it goes some seconds later
        collect(other.own_catalog(), **NOW)
        assert len(files(other)) == 1, "what nobody reads any more is gone"


def test_a_scan_is_pinned_before_its_first_batch_is_asked_for(place: Place) -> None:
    batches = place.table().scan().to_batches()
    place.overwrite_and_clean_up()
    assert sum(batch.num_rows for batch in batches) == ROWS


def test_an_ordered_scan_of_a_keyed_table_gets_all_its_rows(place: Place) -> None:
    table = place.table(primary_key=["id"])
    batches = table.scan(ordered=True).to_batches()
    got = [next(batches)]
    table.overwrite([{"id": -1, "text": "new"}])
    collect(place.lake.own_catalog(), **NOW)
    got += list(batches)
    assert [n for batch in got for n in batch.column("id").to_pylist()] == list(range(ROWS))


def test_duckdb_reads_a_scan_to_its_end(place: Place) -> None:
    connection = duckdb.connect().register("reader", place.table().scan().to_reader())
    place.overwrite_and_clean_up()
    assert connection.execute("select count(*), sum(id) from reader").fetchall() == [(ROWS, sum(range(ROWS)))]


def test_a_dropped_table_is_not_purged_under_its_readers(place: Place) -> None:
    batches = place.table().scan().to_batches()
    next(batches)
    with place.open_it() as other:
        other.drop_table("shop.t", immediate=True)
        collect(other.own_catalog(), **NOW)
        assert sum(batch.num_rows for batch in batches) == ROWS - 100
        place.lake.context.pins._release_idle()
        collect(other.own_catalog(), **NOW)
        assert not files(other)


def test_a_reader_that_is_dropped_lets_go(place: Place) -> None:
    batches = place.table().scan().to_batches()
    next(batches)
    unread = place.lake.table("shop.t").scan().to_batches()
    del batches, unread
    gc.collect()
    place.lake.context.pins._release_idle()
    place.overwrite_and_clean_up()
    assert len(files(place.lake)) == 1


def test_the_gc_of_the_readers_own_process_passes_what_was_read(place: Place) -> None:
    table = place.table()
    assert table.scan().to_arrow().num_rows == ROWS
    table.overwrite([{"id": -1, "text": "new"}])
    collect(place.lake.own_catalog(), **NOW)
    assert len(files(place.lake)) == 1


def test_a_reader_through_a_server_gets_all_its_rows(place: Place) -> None:
    place.table()
    server = build_server(place.lake, ServeConfig(bind="127.0.0.1:0", http_bind="")).start()
    try:
        with open_remote(f"grpc://{server.address}", storage=place.lake.store.uri) as remote:
            batches = remote.table("shop.t").scan().to_batches()
            got = [next(batches)]
            place.overwrite_and_clean_up()
            got += list(batches)
        assert sum(batch.num_rows for batch in got) == ROWS
        collect(place.lake.own_catalog(), **NOW)
        assert len(files(place.lake)) == 1
    finally:
        server.stop(1)


@pytest.fixture
def other_reader(tmp_path: Path) -> Iterator[OtherProcess]:
    """A process that has read one batch of shop.t."""
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", COLUMNS)
        for part in range(4):
            table.append(data(part * ROWS // 4))
    address = {"uri": tmp_path / "lake"}
    with OtherProcess(address, "shop.t", scan_batch_rows=100, scan_ahead_bytes=1) as process:
        assert process.call("begin_scan") == 100
        yield process


def test_another_process_is_waited_for_however_long_it_is_stopped(other_reader: OtherProcess, tmp_path: Path) -> None:
    other_reader.signal(signal.SIGSTOP)
    with Lake.open(tmp_path / "lake", settings={"pin_seconds": 0.001}) as lake:
        lake.table("shop.t").overwrite([{"id": -1, "text": "new"}])
        collect(lake.own_catalog(), **NOW)
        assert len(files(lake)) == 5
        other_reader.signal(signal.SIGCONT)
        assert other_reader.call("end_scan") == ROWS - 100
        collect(lake.own_catalog(), **NOW)
        assert len(files(lake)) == 1


def test_a_process_that_was_killed_keeps_nothing(other_reader: OtherProcess, tmp_path: Path) -> None:
    other_reader.kill()
    with Lake.open(tmp_path / "lake") as lake:
        lake.table("shop.t").overwrite([{"id": -1, "text": "new"}])
        collect(lake.own_catalog(), **NOW)
        assert len(files(lake)) == 1
        assert len(list((tmp_path / "lake" / "living").iterdir())) == 1, "its note is gone, too"


@pytest.mark.postgres
class TestRows:
    """Where the catalog is a server, pins are rows that run out."""

    @pytest.fixture
    def open_it(self, postgres_url: str, tmp_path: Path) -> Callable[..., Lake]:
        def open_it(**settings: Any) -> Lake:
            settings = {"scan_batch_rows": 100, "scan_ahead_bytes": 1} | settings
            return Lake.open(postgres_url, storage=str(tmp_path / "lake"), settings=settings)

        return open_it

    def test_a_pin_is_renewed_while_it_is_held(self, open_it: Callable[..., Lake]) -> None:
        place = Place(lambda **settings: open_it(pin_seconds=0.4, **settings))
        batches = place.table().scan().to_batches()
        got = [next(batches)]
        end = time.monotonic() + 1.2
        while time.monotonic() < end:
            time.sleep(0.1)
        place.overwrite_and_clean_up()
        assert sum(batch.num_rows for batch in (*got, *batches)) == ROWS
        place.lake.close()

    def test_a_reader_that_lost_its_pin_gets_an_error_and_no_part_of_the_rows(
        self, open_it: Callable[..., Lake], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As after a stop: nothing was renewed for longer than the pin lasts."""
        place = Place(lambda **settings: open_it(pin_seconds=0.3, **settings))
        monkeypatch.setattr("moulin.table.pins.Pins._keep", lambda self, row: None)
        table = place.table()
        batches = table.scan().to_batches()
        next(batches)
        time.sleep(0.4)
        place.overwrite_and_clean_up()
        with pytest.raises(NotFound, match="Read it again"):
            list(batches)
        assert table.scan().to_arrow().num_rows == 1, "the next reader is not affected"
        place.lake.close()

    def test_many_scans_share_one_pin(self, open_it: Callable[..., Lake], monkeypatch: pytest.MonkeyPatch) -> None:
        place = Place(open_it)
        table, made = place.table(), []
        pin = type(place.lake.catalog).pin

        def counted(*arguments: Any) -> uuid.UUID:
            made.append(arguments)
            return pin(*arguments)

        monkeypatch.setattr(type(place.lake.catalog), "pin", counted)
        for n in range(10):
            table.append([{"id": ROWS + n, "text": None}])
            assert table.scan().to_arrow().num_rows == ROWS + n + 1
        assert len(made) == 1
        place.lake.close()

    def test_a_pin_moves_on_with_its_readers(self, open_it: Callable[..., Lake]) -> None:
        place = Place(lambda **settings: open_it(pin_seconds=0.4, **settings))
        table = place.table()
        first = table.scan().to_batches()
        next(first)
        table.append([{"id": ROWS, "text": None}])
        second = table.scan().to_batches()
        next(second)
        old = table.version - 1
        first.close()
        end = time.monotonic() + 10
        while time.monotonic() < end and table.state().oldest_version <= old:
            time.sleep(0.1)
            collect(place.lake.own_catalog(), **NOW)
        assert table.state().oldest_version > old, "nobody reads the older version any more"
        assert sum(batch.num_rows for batch in second) == ROWS + 1 - 100
        place.lake.close()

    def test_threads_may_read_as_they_like(self, open_it: Callable[..., Lake]) -> None:
        place = Place(lambda **settings: open_it(pin_seconds=1, **settings))
        table = place.table()

        def read(_: int) -> list[int]:
            counts: list[int] = []
            while len(counts) < 5:
                try:
                    batches = table.scan().to_batches()
                    rows = next(batches).num_rows
                except NotFound:  # clean-up came between the look at the table and the pin: nothing was read
                    continue
                counts.append(rows + sum(batch.num_rows for batch in batches))
            return counts

        with ThreadPoolExecutor(4) as pool:
            found = pool.map(read, range(4))
            for n in range(5):
                table.append([{"id": ROWS + n, "text": None}])
                table.compact(everything=True)
                collect(place.lake.own_catalog(), **NOW)
            assert all(rows >= ROWS for counts in found for rows in counts)
        place.lake.close()
