"""`kill -9` of a server that engines commit to: what it answered is there, and no append is there in part or twice."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import moulin
from moulin.catalog.upkeep.check import check
from tests.commands import Command
from tests.crash.fleet import free_port
from tests.iceberg.rest.served import pyiceberg_catalog

pytestmark = pytest.mark.crash
_WRITERS = 3
_ROWS = 3  # of each append


class Writers:
    """Threads that append through a server until they are told to end, whether it is there or not."""

    def __init__(self, address: str) -> None:
        self.address, self.ended = address, threading.Event()
        self.answered: list[int] = []
        self.unknown: list[int] = []
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(_WRITERS)]
        for thread in self._threads:
            thread.start()

    def _work(self, writer: int) -> None:
        number = 0
        while not self.ended.is_set():
            number += 1
            value = writer * 100_000 + number
            try:
                table = pyiceberg_catalog(self.address).load_table("shop.t")
            except Exception:  # noqa: BLE001 - the server is away
                time.sleep(0.05)
                continue
            try:
                table.append(pa.table({"id": pa.array([value] * _ROWS, pa.int64())}))
                self.answered.append(value)
            except Exception:  # noqa: BLE001 - whatever it says: nobody knows
                self.unknown.append(value)

    def end(self) -> None:
        self.ended.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.sample(1)
@pytest.mark.parametrize("kills", [2, 12])
def test_appends_through_a_server_that_is_killed_are_there_once_or_not_at_all(tmp_path: Path, kills: int) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        properties = {"format-version": "2", "moulin.rebase-appends": "true", "commit.retry.num-retries": "0"}
        lake.create_database("shop")
        lake.create_table("shop.t", [("id", "long")], properties=properties)
    port, chance = free_port(), random.Random(kills)
    command = ("--lake", str(tmp_path / "lake"), "serve", "--bind", "127.0.0.1:0", "--http-bind", f"127.0.0.1:{port}")
    writers = Writers(f"http://127.0.0.1:{port}/iceberg")
    try:
        for _ in range(kills):
            with Command(*command) as server:
                before = len(writers.answered)
                server.wait_until(lambda before=before: len(writers.answered) > before + 2)  # type: ignore[misc]
                time.sleep(chance.random() * 0.5)
        with Command(*command) as server:
            before = len(writers.answered)
            server.wait_until(lambda: len(writers.answered) > before + 2)
            writers.end()
    finally:
        writers.end()
    with moulin.connect(tmp_path / "lake") as lake:
        found = lake.table("shop.t").scan().to_arrow()["id"].to_pylist()
        assert {found.count(value) for value in set(found)} == {_ROWS}
        assert set(writers.answered) <= set(found) <= {*writers.answered, *writers.unknown}
        assert check(lake.own_catalog()) == []
