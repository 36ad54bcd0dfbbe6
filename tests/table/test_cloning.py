"""Clones of tables, as users make and read them: with other engines, after clean-up, from another lake."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.errors import AlreadyExists, InvalidInput, NotFound
from moulin.lake import Lake
from moulin.table.table import Table
from tests.table.conftest import BACKENDS, EVENTS, SERVED

START = datetime(2026, 1, 1, tzinfo=UTC)


pytestmark = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [
        {"id": n, "ts": START + timedelta(minutes=n), "region": "ab"[n % 2], "amount": n / 2}
        for n in range(first, last)
    ]


def ids(table: Any, **options: Any) -> list[int]:
    found: list[int] = table.scan(columns=["id"], **options).to_arrow()["id"].to_pylist()
    return sorted(found)


@pytest.fixture
def events(lake: Lake) -> Table:
    table = lake.create_table("shop.events", EVENTS, event_time="ts", partition_by=["region"])
    table.append(rows(0, 60))
    table.append(rows(60, 100))
    table.tag("all")
    table.delete_where("id < 10")
    return table


def test_a_clone_has_the_rows_of_now_or_of_a_version_and_shares_no_later_change(lake: Lake, events: Table) -> None:
    clone = lake.clone_table("shop.events", "shop.trial")
    before = lake.clone_table(events, "shop.before", at="all")
    assert (ids(clone), ids(before)) == ([*range(10, 100)], [*range(100)])
    clone.delete_where("id >= 90")
    clone.append(rows(200, 205))
    clone.update({"amount": "amount + 1"}, where="id = 50")
    events.delete_where("id = 20")
    assert ids(clone) == [*range(10, 90), *range(200, 205)]
    assert ids(events) == [n for n in range(10, 100) if n != 20]
    assert ids(before) == [*range(100)]
    assert ids(clone, where="region = 'a' and ts < '2026-01-01T00:40:00Z'") == [*range(10, 40, 2)]
    assert [row["amount"] for row in clone.scan(where="id = 50").to_pylist()] == [26.0]
    assert clone.scan().count() == 85
    clone.compact(everything=True)
    assert ids(clone) == [*range(10, 90), *range(200, 205)]
    clone.restore(clone.state().created_version)
    assert ids(clone) == [*range(10, 100)]


def test_rows_of_a_clone_keep_their_ids_and_versions(lake: Lake, events: Table) -> None:
    hidden = ["id", "_row_id", "_last_updated_version", "_created_version"]
    clone = lake.clone_table("shop.events", "shop.trial")
    assert sorted(clone.scan(columns=hidden).to_pylist(), key=lambda row: row["id"]) == sorted(
        events.scan(columns=hidden).to_pylist(), key=lambda row: row["id"]
    )
    clone.append(rows(300, 301))
    (new,) = clone.scan(columns=hidden, where="id = 300").to_pylist()
    assert new["_row_id"] == 100, "ids go on where those of the source were"
    changes = clone.changes(since=clone.state().created_version).to_arrow()
    assert changes["id"].to_pylist() == [300]


def test_a_keyed_clone_takes_puts_of_its_own(lake: Lake) -> None:
    users = lake.create_table("shop.users", [("k", "long"), ("v", "string")], primary_key=["k"])
    for n in range(40):
        users.put({"k": n, "v": f"v{n}"})
    clone = lake.clone_table("shop.users", "shop.trial")
    clone.put({"k": 7, "v": "mine"})
    clone.delete(8)
    clone.put({"k": 100, "v": "new"})
    users.put({"k": 9, "v": "theirs"})
    clone.flush()
    users.flush()
    assert [clone.get(k) for k in (7, 8, 9)] == [{"k": 7, "v": "mine"}, None, {"k": 9, "v": "v9"}]
    assert [users.get(k) for k in (7, 8, 9)] == [{"k": 7, "v": "v7"}, {"k": 8, "v": "v8"}, {"k": 9, "v": "theirs"}]
    assert (clone.scan().count(), users.scan().count()) == (40, 40)
    assert users.get(100) is None
    clone.compact(everything=True)
    assert sorted(row["k"] for row in clone.scan().to_pylist()) == [*(n for n in range(40) if n != 8), 100]


def test_columns_of_a_clone_change_without_those_of_its_source(lake: Lake, events: Table) -> None:
    clone = lake.clone_table("shop.events", "shop.trial")
    clone.add_column("note", "string")
    clone.rename_column("amount", "price")
    clone.append([{"id": 500, "ts": START, "region": "a", "price": 1.0, "note": "n"}])
    assert events.schema.names == ["id", "ts", "region", "amount"]
    assert [row["note"] for row in clone.scan(where="id in (50, 500)").to_pylist()] in ([None, "n"], ["n", None])


def test_an_index_of_a_clone_covers_the_segments_of_its_base(lake: Lake, events: Table) -> None:
    clone = lake.clone_table("shop.events", "shop.trial")
    clone.create_index("id")
    clone.append(rows(300, 310))
    assert ids(clone, where="id = 77") == [77]
    assert ids(clone, where="id in (305, 11, 5)") == [11, 305]


def test_a_copy_is_a_table_of_its_own_also_in_another_lake(lake: Lake, events: Table, tmp_path: Path) -> None:
    copy = lake.clone_table("shop.events", "shop.copy", copy=True)
    assert ids(copy) == ids(events)
    assert copy.state().spec.fields == events.state().spec.fields
    with moulin.connect(tmp_path / "other") as other:
        other.create_database("shop")
        with pytest.raises(InvalidInput, match="copy=True"):
            other.clone_table(events, "shop.events")
        there = other.clone_table(events, "shop.events", at="all", copy=True)
        assert ids(there) == [*range(100)]


def test_a_clone_needs_a_free_name_and_a_version_that_is_kept(lake: Lake, events: Table) -> None:
    with pytest.raises(AlreadyExists):
        lake.clone_table("shop.events", "shop.events")
    with pytest.raises(NotFound, match="does not exist yet"):
        lake.clone_table("shop.events", "shop.trial", at=10_000)
    with pytest.raises(NotFound):
        lake.clone_table("shop.events", "nowhere.trial")
    assert [entry.name for entry in lake.tables("shop")] == ["events"]
