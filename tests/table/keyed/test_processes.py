"""Keyed tables in several real processes: claims and fences, replay, and when others see a write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from moulin.errors import Fenced
from moulin.lake import Lake
from tests.table.conftest import BACKENDS
from tests.table.other_process import OtherProcess

STOCK = [("shop", "string", False), ("id", "long", False), ("n", "long")]

Start = Callable[..., OtherProcess]


@pytest.fixture(params=BACKENDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    if request.param == "folder":
        return {"uri": tmp_path / "lake"}
    return {
        "uri": request.getfixturevalue("postgres_url"),
        "storage": request.getfixturevalue("s3_url"),
        "storage_options": request.getfixturevalue("s3_options"),
    }


@pytest.fixture
def lake(address: dict[str, Any]) -> Iterator[Lake]:
    with Lake.open(**address) as lake:
        lake.create_database("shop")
        yield lake


@pytest.fixture
def start(address: dict[str, Any]) -> Iterator[Start]:
    """Starts processes that open a table, and ends them with the test."""
    with ExitStack() as stack:
        yield lambda table, **settings: stack.enter_context(OtherProcess(address, table, **settings))


def stock(shop: str, number: int, n: int = 0) -> dict[str, Any]:
    return {"shop": shop, "id": number, "n": n}


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["shop"], row["id"]))


def test_regions_are_written_by_processes_beside_each_other(address: dict[str, Any], lake: Lake, start: Start) -> None:
    """A claim raises the epoch, fences the stale writer before it is acknowledged, and replays what is not covered."""
    properties = {"moulin.regions": "shop"}
    table = lake.create_table("shop.stock", STOCK, primary_key=["shop", "id"], properties=properties)
    quiet = {"merge_background": "off"}
    east, west = start("shop.stock", **quiet), start("shop.stock", **quiet)
    for n in range(5):
        east.call("put", stock("east", n))
        west.call("put_batch", [stock("west", n), stock("west", n + 1)])
    for process in (east, west):
        process.call("flush")
    expected = [stock("east", n) for n in range(5)] + [stock("west", n) for n in range(6)]
    assert in_order(table.scan().to_pylist()) == expected
    epochs = {region.value: (region.epoch, region.covered) for region in lake.catalog.regions(table.id)}
    assert {epoch for epoch, _ in epochs.values()} == {1}
    (first,) = (region for region in lake.catalog.regions(table.id) if region.value == _value(table, ("east", 0)))

    east.call("put", stock("east", 1, 7))
    east.call("delete", ["east", 2])
    if "storage" in address:  # whoever claims a log in a store takes it over
        west.call("put", stock("east", 9))
        with pytest.raises(Fenced, match="Open the table again"):
            east.call("put", stock("east", 8))
    else:  # a log on the disk is kept by its process for as long as that lives
        with pytest.raises(Fenced, match="close it there, or stop that process"):
            west.call("put", stock("east", 8))
        east.kill()
        west.call("put", stock("east", 9))
    pending = [["east", 1], ["east", 2], ["east", 9]]
    assert west.call("pending") == pending, "replayed from what was covered on, no more and no less"
    (second,) = (region for region in lake.catalog.regions(table.id) if region.number == first.number)
    assert (second.epoch, second.covered) == (first.epoch + 1, first.covered)
    west.call("flush")
    expected = [row for row in expected if row not in (stock("east", 1), stock("east", 2))]
    expected += [stock("east", 1, 7), stock("east", 9)]
    assert in_order(table.scan().to_pylist()) == in_order(expected), "what was refused is not there"
    (third,) = (region for region in lake.catalog.regions(table.id) if region.number == first.number)
    assert third.covered > second.covered
    assert west.call("pending") == []


def _value(table: Any, key: tuple[Any, ...]) -> Any:
    return table._keyed_only().spec.value_of(key)


@pytest.mark.parametrize("address", ["folder"], indirect=True)
def test_rows_that_are_only_in_the_log_follow_the_schema_into_a_new_process(lake: Lake, start: Start) -> None:
    table = lake.create_table("shop.stock", STOCK, primary_key=["id"])
    writer = start("shop.stock", log_sync="always", merge_background="off")
    writer.call("put_batch", [stock("a", 1, 1), stock("b", 2, 2)])
    writer.call("put", stock("c", 3, 3))
    writer.call("add_column", "note", "string", "none")
    table.rename_column("n", "amount")  # by another process than the one that writes
    writer.call("delete", 2)
    writer.call("put", {"shop": "d", "id": 4, "amount": 4, "note": "new"})
    assert table.scan().to_pylist() == [], "nothing was flushed: others see nothing"
    writer.kill()
    reader = start("shop.stock")
    reader.call("put", {"shop": "e", "id": 5, "amount": 5})
    expected = [
        {"shop": "a", "id": 1, "amount": 1, "note": "none"},
        {"shop": "c", "id": 3, "amount": 3, "note": "none"},
        {"shop": "d", "id": 4, "amount": 4, "note": "new"},
        {"shop": "e", "id": 5, "amount": 5, "note": "none"},
    ]
    assert in_order(reader.call("scan")) == expected
    assert reader.call("get_many", [1, 3, 4, 5]) == expected
    reader.call("flush")
    assert in_order(table.scan().to_pylist()) == expected


@pytest.mark.parametrize("address", ["folder"], indirect=True)
def test_others_see_a_write_when_it_is_flushed_and_in_the_order_of_writes(lake: Lake, start: Start) -> None:
    """By `flush`, by a full memtable, and by closing; each version holds the first writes up to some point."""
    table = lake.create_table("shop.stock", STOCK, primary_key=["id"])
    writer = start("shop.stock", memtable_bytes=2_000, log_sync="never", merge_background="off")
    writer.call("put", stock("a", 0))
    assert writer.call("get", 0) == stock("a", 0)
    assert table.get(0) is None
    assert table.scan().count() == 0
    writer.call("flush")
    assert table.get(0) == stock("a", 0)
    number = 0
    while table.scan().count() == 1:  # its memtable is flushed when it is full
        number += 1
        writer.call("put", stock("a", number))
    last = number + 40
    for following in range(number + 1, last):
        writer.call("put", stock("a", following))
    writer.call("close")
    assert table.scan().count() == last
    sizes = set()
    for entry in table.history():
        seen = sorted(row["id"] for row in table.at(version=entry.version).scan().to_pylist())
        assert seen == list(range(len(seen))), "a later write never without an earlier one"
        sizes.add(len(seen))
    assert len(sizes) >= 4
