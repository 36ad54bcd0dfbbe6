"""Time travel, restore, lineage, pins and transactions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from moulin.errors import Conflict, InvalidInput, NotFound
from moulin.lake import Lake
from moulin.table.table import Table
from tests.table.conftest import EVENTS, ids, rows


def test_every_version_stays_as_it_was(orders: Table) -> None:
    states = {orders.version: []}
    for change in (
        lambda: orders.append(rows(1, 10)),
        lambda: orders.append(rows(11, 10)),
        lambda: orders.delete_where("id in (3, 14)"),
        lambda: orders.compact(everything=True),
        lambda: orders.overwrite(rows(50, 3), where="id < 5"),
        lambda: orders.delete_where("id = 51"),
    ):
        change()
        states[orders.version] = ids(orders)
    assert len(states) == 7
    for version, expected in states.items():
        assert ids(orders.at(version=version)) == expected
        assert ids(orders.scan(version=version)) == expected
        assert orders.at(version=version).count() == len(expected)


def test_restore_brings_back_rows_and_schema(orders: Table) -> None:
    orders.append(rows(1, 10))
    good = orders.version
    orders.add_column("note", "string")
    orders.delete_where("id > 3")
    orders.restore(good)
    assert ids(orders) == list(range(1, 11))
    assert "note" not in orders.schema.names
    orders.append(rows(20, 1))
    assert ids(orders)[-1] == 20


def test_restore_works_over_a_compaction(orders: Table) -> None:
    orders.append(rows(1, 10))
    orders.append(rows(11, 10))
    before = orders.version
    orders.compact(everything=True)
    orders.delete_where("id < 10")
    orders.restore(before)
    assert ids(orders) == list(range(1, 21))
    orders.compact(everything=True)
    assert ids(orders) == list(range(1, 21))


def test_restore_counts_the_rows_that_came_and_went(orders: Table) -> None:
    orders.append(rows(1, 10))
    orders.append(rows(11, 10))
    before = orders.version
    orders.delete_where("id < 4")
    orders.append(rows(50, 5))
    orders.compact(everything=True)  # moves rows, which is no change
    done = orders.restore(before)
    assert (done.rows_added, done.rows_deleted, done.rows_updated) == (3, 5, 0)
    again = orders.restore(before)
    assert (again.rows_added, again.rows_deleted, again.rows_updated) == (0, 0, 0)


def test_restore_of_a_keyed_table_counts_updated_rows(lake: Lake) -> None:
    table = lake.create_table("shop.k", [("id", "long"), ("n", "long")], primary_key=["id"])
    table.put_batch([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    table.flush()
    before = table.version
    table.put_batch([{"id": 2, "n": 3}, {"id": 4, "n": 4}])
    table.delete(1)
    done = table.restore(before)
    assert (done.rows_added, done.rows_deleted, done.rows_updated) == (1, 1, 1)


def test_restore_reports_even_when_the_rows_that_went_cannot_be_read(lake: Lake, orders: Table) -> None:
    orders.append(rows(1, 10))
    orders.compact(everything=True)
    before = orders.version
    orders.overwrite(rows(50, 5), where="id < 3")
    orders.compact(everything=True)  # whose segments store row ids, which the count reads
    for segment in lake.catalog.segments(orders.id, orders.version):
        lake.store.delete([segment.facts.path])
    done = orders.restore(before)
    assert (done.rows_added, done.rows_deleted) == (10, 13)
    assert ids(orders) == list(range(1, 11))


def test_a_time_reads_the_version_of_that_time(orders: Table) -> None:
    orders.append(rows(1, 10))
    between = datetime.now(UTC)
    orders.append(rows(11, 10))
    assert ids(orders.at(timestamp=between)) == list(range(1, 11))
    assert ids(orders.at(timestamp=between.isoformat())) == list(range(1, 11))
    with pytest.raises(NotFound, match="no version as old"):
        orders.at(timestamp="1999-01-01T00:00:00")
    with pytest.raises(InvalidInput, match="yesterday"):
        orders.at(timestamp="yesterday")


def test_unknown_versions_are_named(orders: Table) -> None:
    with pytest.raises(NotFound, match="does not exist yet"):
        orders.at(version=10_000)
    with pytest.raises(NotFound, match="created at version"):
        orders.at(version=1)
    with pytest.raises(InvalidInput, match="one of version, timestamp and tag"):
        orders.at()


def test_row_ids_and_versions_live_through_compactions(orders: Table) -> None:
    first = orders.append(rows(1, 10)).version
    second = orders.append(rows(11, 10)).version
    orders.delete_where("id in (2, 12)")
    columns = ["id", "_row_id", "_last_updated_version"]

    def lineage() -> dict[int, tuple[int, int]]:
        got = orders.scan(columns=columns).to_pylist()
        return {row["id"]: (row["_row_id"], row["_last_updated_version"]) for row in got}

    before = lineage()
    assert {version for row_id, version in before.values()} == {first, second}
    assert len({row_id for row_id, _ in before.values()}) == 18
    orders.compact(everything=True)
    assert lineage() == before
    third = orders.append(rows(21, 5)).version
    orders.add_column("note", "string")
    orders.compact(everything=True)
    after = lineage()
    assert {key: after[key] for key in before} == before
    assert {after[n][1] for n in range(21, 26)} == {third}
    assert min(after[n][0] for n in range(21, 26)) > max(row_id for row_id, _ in before.values())


def test_history_tells_what_happened(orders: Table) -> None:
    orders.append(rows(1, 10))
    orders.delete_where("id = 3")
    orders.set_properties({"owner": "sales"})
    kinds = [entry.kind for entry in orders.history()]
    assert kinds == ["set-properties", "delete", "append", "create"]
    assert orders.history(limit=1)[0].version == orders.version
    assert orders.history()[1].summary["deleted-records"] == "1"


def test_columns_evolve_by_id(orders: Table) -> None:
    orders.append(rows(1, 3))
    orders.rename_column("region", "area")
    orders.add_column("level", "int", default=7)
    orders.add_column("note", "string")
    orders.drop_column("amount")
    orders.append([{"id": 10, "area": "us", "note": "hello"}, {"id": 11, "level": None}])
    got = {row["id"]: row for row in orders.scan(columns=["id", "area", "level", "note"]).to_pylist()}
    assert got[1] == {"id": 1, "area": "eu", "level": 7, "note": None}
    assert got[10] == {"id": 10, "area": "us", "level": 7, "note": "hello"}
    assert got[11]["level"] is None
    orders.add_column("amount", "double")
    assert {row["amount"] for row in orders.scan().to_pylist()} == {None}
    orders.widen_column("level", "long")
    assert orders.scan(where="level = 7").count() == 4
    orders.move_column("note", first=True)
    assert orders.scan().to_arrow().column_names[0] == "note"
    orders.compact(everything=True)
    assert {row["id"]: row["level"] for row in orders.scan().to_pylist()} == {1: 7, 2: 7, 3: 7, 10: 7, 11: None}


def test_a_transaction_is_one_version(lake: Lake, orders: Table) -> None:
    returns = lake.create_table("shop.returns", EVENTS)
    orders.append(rows(1, 10))
    with lake.transaction() as tx:
        tx.table("shop.orders").delete_where("id <= 3")
        tx.table("shop.orders").delete_where("id = 4")
        tx.table("shop.returns").append(rows(1, 4))
        tx.table("shop.orders").append(rows(20, 1))
        assert ids(orders) == list(range(1, 11))
    assert orders.version == returns.version == tx.version
    assert ids(orders) == [*range(5, 11), 20]
    assert ids(returns) == [1, 2, 3, 4]


def test_a_failed_transaction_leaves_nothing(lake: Lake, orders: Table) -> None:
    orders.append(rows(1, 10))
    before = lake.version
    with pytest.raises(RuntimeError), lake.transaction() as tx:
        tx.table("shop.orders").append(rows(11, 1))
        raise RuntimeError
    assert lake.version == before
    assert ids(orders) == list(range(1, 11))


def test_a_transaction_that_lost_its_rows_is_a_conflict(lake: Lake, orders: Table) -> None:
    orders.append(rows(1, 10))
    with pytest.raises(Conflict), lake.transaction() as tx:
        tx.table("shop.orders").delete_where("id = 3")
        orders.overwrite(rows(50, 2))
    assert ids(orders) == [50, 51]
