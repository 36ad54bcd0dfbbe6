"""Columns that are added with values: what readers see, what is written, and what goes on beside it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from moulin.catalog.commit.table_commit import Stale
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.errors import AlreadyExists, FailedPrecondition, InvalidInput
from moulin.lake import Lake
from moulin.storage import paths
from moulin.table.compact.job import commit_compaction, compact_group
from moulin.table.compact.picker import Group
from moulin.table.fill import fill as filling
from moulin.table.fill.fill import Filler, begin
from moulin.table.table import Table
from tests.table.conftest import BACKENDS, EVENTS, SERVED, OpenLake

START = datetime(2026, 1, 1, tzinfo=UTC)

SHARED = pytest.param("shared", id="postgres-s3", marks=[pytest.mark.postgres, pytest.mark.s3, pytest.mark.long])

pytestmark = pytest.mark.parametrize("open_lake", [BACKENDS[0], SERVED, SHARED], indirect=True)


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [
        {"id": n, "ts": START + timedelta(minutes=n), "region": "ab"[n % 2], "amount": n / 2}
        for n in range(first, last)
    ]


@pytest.fixture
def events(lake: Lake) -> Table:
    """Three segments, some rows of the first deleted."""
    table = lake.create_table("shop.events", EVENTS, event_time="ts", properties={"moulin.inline-bytes": 0})
    for first in (0, 40, 80):
        table.append(rows(first, first + 40))
    table.delete_where("id < 10")
    return table


@pytest.fixture
def items(lake: Lake) -> Table:
    table = lake.create_table("shop.items", [("id", "long", False), ("price", "double")], primary_key=["id"])
    table.put_batch([{"id": n, "price": float(n)} for n in range(20)])
    table.flush()
    table.put_batch([{"id": n, "price": 100.0 + n} for n in range(15, 25)])
    return table


def by_id(source: Any, column: str, **options: Any) -> dict[int, Any]:
    found = source.scan(columns=["id", column], **options).to_arrow()
    return dict(zip(found["id"].to_pylist(), found[column].to_pylist(), strict=True))


def sound(lake: Lake) -> None:
    if hasattr(lake.catalog, "pool"):
        assert [finding for finding in check(lake.own_catalog(), data=True) if "marker" not in finding.rule] == []


def files(lake: Lake, table: Table) -> list[Any]:
    return [file for s in lake.catalog.segments(table.id, table.version) for file in s.facts.files]


def test_every_row_gets_the_value_of_an_expression_and_no_segment_is_written_again(lake: Lake, events: Table) -> None:
    before = {s.facts.path for s in lake.catalog.segments(events.id, events.version)}
    read, feed = events.version, events.version
    events.add_column("twice", "double", from_sql="amount * 2")
    assert by_id(events, "twice") == {n: float(n) for n in range(10, 120)}
    live = lake.catalog.segments(events.id, events.version)
    assert {s.facts.path for s in live} == before
    assert [len(s.facts.files) for s in live] == [1, 1, 1]
    assert by_id(events, "twice", where="twice >= 117") == {n: float(n) for n in range(117, 120)}
    assert by_id(events, "twice", where="id = 50 and twice = 50") == {50: 50.0}
    assert [row["id"] for row in events.scan(order_by="twice desc", limit=2).to_pylist()] == [119, 118]
    assert events.take([3, 55], columns=["id", "twice"]).to_pylist() == [{"id": 55, "twice": 55.0}]
    assert events.scan(version=read).to_arrow().schema.names == [name for name, *_ in EVENTS]
    assert events.changes(feed).to_arrow().num_rows == 0, "no row changed"
    events.delete_where("twice < 30")
    events.update({"twice": "twice + 0.5"}, where="id = 100")
    events.append([{**rows(500, 501)[0], "twice": 7.0}])
    expected = {n: float(n) for n in range(30, 120)} | {100: 100.5, 500: 7.0}
    assert by_id(events, "twice") == expected
    events.compact(everything=True)
    assert by_id(events, "twice") == expected
    assert files(lake, events) == [], "every compaction folds"
    sound(lake)


def test_facts_of_a_column_file_prune_segments(lake: Lake, events: Table) -> None:
    events.add_column("twice", "double", from_sql="amount * 2")
    facts = [
        {c.field_id: c for c in s.facts.columns}[events.state().schema.find_field("twice").field_id]
        for s in lake.catalog.segments(events.id, events.version)
    ]
    assert [(one.values, one.nulls, one.nans) for one in facts] == [(40, 10, 0), (40, 0, 0), (40, 0, 0)]
    assert events.scan(where="twice > 10000").to_arrow().num_rows == 0


def test_a_pending_column_reads_as_null_refuses_values_and_is_completed_with_what_came_since(
    open_lake: OpenLake, lake: Lake, events: Table
) -> None:
    state = events.state()
    kind = state.schema.find_field("amount").field_type
    begin(events._context, events.state, None, [("twice", kind)], ["amount"], "amount * 2")
    pending = events.version
    assert set(by_id(events, "twice").values()) == {None}
    with pytest.raises(FailedPrecondition, match="is being filled"):
        events.append([{**rows(200, 201)[0], "twice": 1.0}])
    with pytest.raises(FailedPrecondition, match="cannot be dropped until twice"):
        events.drop_column("amount")
    with pytest.raises(AlreadyExists, match="pending"):
        events.add_column("twice", "double", from_sql="amount * 3")
    events.append(rows(200, 210))
    events.rename_column("amount", "cost")
    other = open_lake().table("shop.events")
    other.add_column("twice", "double", from_sql="amount * 2")  # goes on, by the names that it began with
    assert by_id(events, "twice") == {n: float(n) for n in [*range(10, 120), *range(200, 210)]}
    assert set(by_id(events, "twice", version=pending).values()) == {None}
    events.append([{**{k: v for k, v in rows(300, 301)[0].items() if k != "amount"}, "twice": 1.0}])
    assert by_id(events, "twice")[300] == 1.0
    sound(lake)


def test_writes_and_compactions_go_on_between_the_groups_of_a_fill(lake: Lake, events: Table) -> None:
    expected = {n: float(n) for n in range(10, 120)}
    write, told = Filler._write, iter(range(100))

    def disturbed(self: Any, *given: Any) -> None:
        step = next(told)
        if step == 0:
            events.append(rows(200, 205))
            events.delete_where("id = 41")
        elif step == 1:
            events.append(rows(300, 305))
            events.compact(everything=True)
        write(self, *given)
        if step == 2:
            events.delete_where("id = 42")

    with patch.object(filling, "_GROUP_SEGMENTS", 1), patch.object(Filler, "_write", disturbed):
        events.add_column("twice", "double", from_sql="amount * 2")
    expected |= {n: float(n) for n in (*range(200, 205), *range(300, 305))}
    del expected[41], expected[42]
    assert by_id(events, "twice") == expected
    sound(lake)


def test_a_compaction_that_did_not_see_a_column_that_is_complete_by_now_is_refused(lake: Lake, events: Table) -> None:
    state = events.state()
    group = Group(tuple(lake.catalog.segments(events.id, state.version)), 1)
    change, other = (compact_group(events._context, state, group, 1 << 20) for _ in range(2))
    events.add_column("twice", "double", from_sql="amount * 2")
    now = events.state()
    disguised = replace(other, added=tuple(replace(facts, schema_id=now.schema_id) for facts in other.added))
    for prepared in (change, disguised):
        with pytest.raises(Stale):
            commit_compaction(events._context, prepared)
    assert by_id(events, "twice") == {n: float(n) for n in range(10, 120)}


def test_keyed_tables_fill_what_is_in_their_log_and_refuse_puts_of_the_column_until_then(
    lake: Lake, items: Table
) -> None:
    kind = items.state().schema.find_field("price").field_type
    begin(items._context, items.state, items._keyed(), [("half", kind)], ["price"], "price / 2")
    items.put({"id": 30, "price": 8.0})
    for refused in (
        lambda: items.put({"id": 31, "price": 1.0, "half": 9.0}),
        lambda: items.put_batch([{"id": 1, "half": 2.0}]),
    ):
        with pytest.raises(FailedPrecondition, match="being filled"):
            refused()
    assert items.get(30) == {"id": 30, "price": 8.0, "half": None}
    items.add_column("half", "double", from_sql="price / 2")
    assert items.get(30) == {"id": 30, "price": 8.0, "half": 4.0}
    assert items.get_many([3, 17, 99]) == [
        {"id": 3, "price": 3.0, "half": 1.5},
        {"id": 17, "price": 117.0, "half": 58.5},
        None,
    ]
    items.put({"id": 3, "price": 1.0, "half": 2.0})
    items.delete(4)
    assert items.get(3) == {"id": 3, "price": 1.0, "half": 2.0}
    items.create_index("half")
    assert [row["id"] for row in items.scan(where="half = 58.5").to_pylist()] == [17]
    assert [row["half"] for row in items.scan(start=2, end=6).to_pylist()] == [1.0, 2.0, 2.5]
    items.flush()
    items.compact(everything=True)
    assert items.get(17) == {"id": 17, "price": 117.0, "half": 58.5}
    assert items.scan().count() == 25
    sound(lake)


def test_columns_come_from_a_function_over_batches(lake: Lake, events: Table) -> None:
    sizes: list[int] = []

    def measure(batch: pa.RecordBatch) -> dict[str, Any]:
        sizes.append(batch.num_rows)
        return {
            "double_id": pc.multiply(batch["id"], 2),
            "name": pc.binary_join_element_wise("r", batch["region"], "-"),
        }

    events.add_columns(measure, read=["id", "region"], batch=16, schema=[("double_id", "long"), ("name", "string")])
    assert by_id(events, "double_id") == {n: 2 * n for n in range(10, 120)}
    assert by_id(events, "name", where="id = 11") == {11: "r-b"}
    assert max(sizes) <= 16
    assert sum(sizes) == 110, "deleted rows are not computed"
    assert [file.fields for file in files(lake, events)] == [files(lake, events)[0].fields] * 3
    events.drop_column("name")
    assert len(files(lake, events)) == 3, "the other column lies in the same files"
    events.drop_column("double_id")
    assert files(lake, events) == []
    events.add_columns(lambda batch: {"more": batch["id"]}, read=["id"])
    assert by_id(events, "more")[100] == 100
    for wrong, sentence in (
        (lambda batch: {"x": [1]}, "1 values for"),
        (lambda batch: {"y": batch["id"]}, "did not return column 'x'"),
        (lambda batch: 1 / 0, "ZeroDivisionError"),
        (lambda batch: 5, "returned int"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            events.add_columns(wrong, read=["id"], schema=[("x", "long")])
        events.drop_column("x")


def test_columns_come_from_rows_joined_by_key_or_row_id(lake: Lake, events: Table, items: Table) -> None:
    items.add_columns(pa.table({"id": [3, 17, 99], "tag": ["c", "q", "none"], "tags": [["x"], [], ["y"]]}))
    assert items.get(17) == {"id": 17, "price": 117.0, "tag": "q", "tags": []}
    assert items.get(4) == {"id": 4, "price": 4.0, "tag": None, "tags": None}
    ids = events.scan(columns=["id", "_row_id"], where="id < 14").to_arrow()
    scores = pa.table({"_row_id": ids["_row_id"], "score": pc.multiply(ids["id"], 10)})
    events.add_columns(pa.RecordBatchReader.from_batches(scores.schema, scores.to_batches()), on="_row_id")
    assert {k: v for k, v in by_id(events, "score").items() if v is not None} == {n: 10 * n for n in range(10, 14)}
    with pytest.raises(InvalidInput, match="twice"):
        items.add_columns(pa.table({"id": [1, 1], "z": [1, 2]}))
    with pytest.raises(InvalidInput, match="lack the column 'id'"):
        items.add_columns(pa.table({"z": [1, 2]}))
    with pytest.raises(InvalidInput, match="no primary key"):
        events.add_columns(pa.table({"id": [1], "z": [1]}))


def test_a_dropped_column_loses_its_files_and_clean_up_deletes_them(lake: Lake, events: Table) -> None:
    events.add_column("twice", "double", from_sql="amount * 2")
    events.add_column("thrice", "double", from_sql="amount * 3")
    before, kept = events.version, [file.path for file in files(lake, events) if len(file.fields)]
    events.drop_column("twice")
    left = [file.path for file in files(lake, events)]
    assert (len(kept), len(left)) == (6, 3)
    assert set(left) < set(kept)
    assert by_id(events, "twice", version=before)[50] == 50.0, "older versions still show it"
    assert by_id(events, "thrice")[50] == 75.0
    if hasattr(lake.catalog, "pool"):
        collect(lake.own_catalog(), history_keep=0, byte_floor=0, orphan_grace=0)
        there = {info.path for info in lake.store.list(paths.columns_prefix(events.id))}
        assert there == set(left)
        assert by_id(events, "thrice")[50] == 75.0
    sound(lake)


def test_versions_restores_and_clones_have_the_column_files_of_their_version(lake: Lake, events: Table) -> None:
    events.add_column("twice", "double", from_sql="amount * 2")
    filled = events.version
    clone = lake.clone_table("shop.events", "shop.trial")
    clone.delete_where("id < 20")
    clone.add_column("more", "double", from_sql="twice + 1")
    again = lake.clone_table("shop.trial", "shop.again")
    events.fold()
    assert files(lake, events) == []
    events.delete_where("id > 50")
    assert by_id(events, "twice", version=filled) == {n: float(n) for n in range(10, 120)}
    assert by_id(clone, "more") == {n: n + 1.0 for n in range(20, 120)}
    assert by_id(again, "more") == by_id(clone, "more")
    again.compact(everything=True)
    events.restore(filled)
    assert by_id(events, "twice") == {n: float(n) for n in range(10, 120)}
    clone.drop_column("twice")
    assert by_id(again, "twice") == {n: float(n) for n in range(20, 120)}
    lake.drop_table("shop.trial", immediate=True)
    assert by_id(again, "more") == {n: n + 1.0 for n in range(20, 120)}
    sound(lake)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "_PATIENCE_SECONDS", 0.01)
