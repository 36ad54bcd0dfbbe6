"""The change feed: what it says must turn the rows of one version into those of another, and say nothing else."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from moulin.catalog.sql.clock import SimulatedClock
from moulin.catalog.upkeep.gc import collect
from moulin.errors import Closed, FailedPrecondition, InvalidInput
from moulin.formats.segment.decoder import Decoder
from moulin.formats.segment.page_reader import PageReader
from moulin.formats.segment.reader import SegmentReader
from moulin.lake import Lake
from moulin.model.operations import Kind
from moulin.model.rows.rows import to_batches
from moulin.model.schema.arrow import LAST_UPDATED_SEQUENCE, ROW_ID
from moulin.table.commit.change import DataChange
from moulin.table.commit.vectors import VectorCache
from moulin.table.read import feed_reader as change_reader
from moulin.table.table import Table
from moulin.table.write.layout import Layout
from moulin.table.write.segment_writer import write_segment
from tests.table.conftest import EVENTS, OpenLake, ids

Row = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FEED = ["_change_type", "_row_id", "_version", "_commit_timestamp"]


def upsert(table: Table, new: Sequence[Row], *, sequence: int | None = None) -> int:
    """Rows whose id is there replace it, others are added, as a keyed table's flush commits them.

    With a `sequence`, rows are written as if an engine had moved them and kept their lineage.
    """
    context, state = table._context, table.state()
    wanted = {row["id"]: None for row in new}
    positions: dict[int, BitMap64] = {}
    for segment in context.catalog.segments(table.id, state.version):
        facts = segment.facts
        reader = SegmentReader(context.store.reader(facts.path, facts.size), state.schema, columns=["id"])
        deleted = segment.vector and context.vectors.get(context.store, segment.vector, facts.rows)
        found = reader.table(deleted=deleted, position=True, row_id=True, first_row_id=segment.first_row_id)
        found = found.filter(pc.is_in(found["id"], pa.array(wanted, pa.int64())))
        wanted.update(zip(found["id"].to_pylist(), found[ROW_ID].to_pylist(), strict=True))
        if found.num_rows:
            positions[facts.number] = BitMap64(found["_pos"].to_pylist())
    data = pa.Table.from_batches(to_batches(list(new), state.schema))
    data = data.append_column(ROW_ID, pa.array([wanted[row["id"]] for row in new], pa.int64()))
    data = data.append_column(LAST_UPDATED_SEQUENCE, pa.array([sequence] * len(new), pa.int64()))
    number = context.catalog.reserve_segments(1)
    added = write_segment(context.store, Layout.of(state), [data], (), number, level=0, lineage=True)
    change = DataChange(table.id, state.version, Kind.UPSERT, (added,), positions)
    return context.committer.commit([change]).version


def short(feed: Any) -> list[tuple[Any, ...]]:
    """Type, id and amount of each row, in a fixed order within a version."""
    found = [(row["_version"], row["_change_type"], row["id"], row["amount"]) for row in feed.to_pylist()]
    return [row[1:] for row in sorted(found)]


def row(number: int, amount: float) -> Row:
    return {"id": number, "ts": None, "region": "eu", "amount": amount}


def state_of(table: Table, version: int) -> dict[int, Row]:
    """Rows by row id."""
    columns = [*table.at(version=version).schema.names, ROW_ID]
    found = table.scan(columns=columns, version=version).to_pylist()
    return {row.pop(ROW_ID): row for row in found}


def applied(start: Mapping[int, Row], feed: Sequence[Row]) -> dict[int, Row]:
    """`start` after the changes; fails when a change does not fit what is there."""
    rows = {key: dict(value) for key, value in start.items()}
    for change in feed:
        kind, key = change["_change_type"], change["_row_id"]
        values = {name: value for name, value in change.items() if name not in FEED}
        if kind in ("delete", "update_before"):
            assert rows.pop(key) == values
        else:
            assert kind in ("insert", "update_after")
            assert key not in rows
            rows[key] = values
    before = {c["_row_id"] for c in feed if c["_change_type"] == "update_before"}
    assert before == {c["_row_id"] for c in feed if c["_change_type"] == "update_after"}
    return rows


def test_inserts_updates_and_deletes_are_reported_in_version_order(orders: Table) -> None:
    base = orders.version
    orders.append([row(n, n) for n in range(1, 6)])
    updated = upsert(orders, [row(2, 20), row(9, 90)])
    orders.delete_where("id in (2, 3)")
    feed = orders.changes(base)
    assert feed.schema.names == [*FEED, "id", "ts", "region", "amount"]
    assert short(feed) == [
        *(("insert", n, float(n)) for n in range(1, 6)),
        ("insert", 9, 90.0),
        ("update_after", 2, 20.0),
        ("update_before", 2, 2.0),
        ("delete", 2, 20.0),
        ("delete", 3, 3.0),
    ]
    versions = [r["_version"] for r in feed.to_pylist()]
    assert versions == sorted(versions)
    assert set(versions) == {base + 1, updated, updated + 1}
    stamps = {(r["_version"], r["_commit_timestamp"]) for r in feed.to_pylist()}
    assert stamps == {(i.version, EPOCH + timedelta(microseconds=i.timestamp_ns // 1000)) for i in orders.history(3)}
    two = [r["_row_id"] for r in feed.to_pylist() if r["id"] == 2]
    assert len(two) == 4
    assert len(set(two)) == 1, "an update keeps its row id"
    assert [r["_change_type"] for r in feed.to_pylist() if r["_version"] == updated] == [
        "update_before",
        "update_after",
        "insert",
    ]
    assert short(orders.changes(updated - 1, updated)) == short(feed)[5:8]
    assert (feed.count(), feed.to_arrow().num_rows, feed.to_reader().read_all().num_rows) == (10, 10, 10)
    assert pa.table(feed).num_rows == 10


def test_net_changes_leave_out_what_came_and_went(orders: Table) -> None:
    first = orders.append([row(n, n) for n in range(1, 6)]).version
    upsert(orders, [row(2, 20), row(9, 90), row(7, 70)])
    second = upsert(orders, [row(2, 21), row(3, 30)])
    orders.delete_where("id in (1, 7)")
    third = orders.append([row(8, 80)]).version
    orders.set_properties({"a": "b"})
    feed = orders.changes(first, net=True)
    until = feed.until
    assert sorted((r["_change_type"], r["id"], r["amount"], r["_version"]) for r in feed.to_pylist()) == [
        ("delete", 1, 1.0, until),
        ("insert", 8, 80.0, third),
        ("insert", 9, 90.0, first + 1),
        ("update_after", 2, 21.0, second),
        ("update_after", 3, 30.0, second),
        ("update_before", 2, 2.0, second),
        ("update_before", 3, 3.0, second),
    ]
    assert feed.count() == 7


def test_compactions_and_settings_are_silent(orders: Table) -> None:
    for place in range(4):
        orders.append([row(place * 10 + n, n) for n in range(10)])
    upsert(orders, [row(5, 55)])
    orders.delete_where("id in (6, 31)")
    base = orders.version
    orders.compact(everything=True)
    orders.set_properties({"a": "b"})
    orders.add_column("note", "string", default="none")
    orders.compact(everything=True)
    assert orders.version > base + 2
    for net in (False, True):
        assert orders.changes(base, net=net).to_pylist() == []
        assert orders.changes(base, net=net).count() == 0
    deleted = orders.delete_where("id = 5").version
    ((change),) = orders.changes(base).to_pylist()
    assert (change["_change_type"], change["amount"], change["note"], change["_version"]) == (
        "delete",
        55.0,
        "none",
        deleted,
    )


def test_restore_reports_what_really_changed(orders: Table) -> None:
    good = orders.append([row(n, n) for n in range(10)]).version
    upsert(orders, [row(1, 100)])
    orders.append([row(20, 20)])
    orders.compact(everything=True)
    orders.delete_where("id = 4")
    restored = orders.restore(good).version
    feed = orders.changes(restored - 1)
    assert short(feed) == [
        ("delete", 20, 20.0),
        ("insert", 4, 4.0),
        ("update_after", 1, 1.0),
        ("update_before", 1, 100.0),
    ]
    assert orders.changes(good, net=True).to_pylist() == []
    # A row that a restore brought back was written before the range; it counts as changed by its end.
    net = orders.changes(restored - 1, net=True)
    assert {r["_version"] for r in net.to_pylist()} == {net.until}
    assert short(net) == short(feed)
    again = orders.restore(restored).version
    assert orders.changes(again - 1).to_pylist() == []


def test_a_rewrite_that_keeps_lineage_is_silent(orders: Table) -> None:
    """An engine may rewrite rows without changing them; it keeps their sequence numbers."""
    orders.append([row(n, n) for n in range(5)])
    sequence = orders.history(1)[0].sequence
    base = orders.version
    upsert(orders, [row(1, 1), row(2, 2)], sequence=sequence)
    assert orders.changes(base).to_pylist() == []
    assert orders.changes(base, net=True).to_pylist() == []


def test_overwrite_is_deletes_and_inserts(orders: Table) -> None:
    orders.append([row(1, 1), row(2, 2)])
    base = orders.version
    orders.overwrite([row(1, 1)], where="id = 1")
    orders.overwrite([row(3, 3)])
    assert short(orders.changes(base)) == [
        ("delete", 1, 1.0),
        ("insert", 1, 1.0),
        ("delete", 1, 1.0),
        ("delete", 2, 2.0),
        ("insert", 3, 3.0),
    ]
    assert short(orders.changes(base, net=True)) == [("delete", 1, 1.0), ("delete", 2, 2.0), ("insert", 3, 3.0)]


def test_rows_are_read_with_the_schema_of_the_end(orders: Table) -> None:
    base = orders.version
    orders.append([row(1, 1)])
    orders.rename_column("amount", "price")
    orders.add_column("note", "string", default="-")
    middle = orders.version
    orders.drop_column("region")
    orders.delete_where("id = 1")
    assert orders.changes(base, middle).schema.names[4:] == ["id", "ts", "region", "price", "note"]
    feed = orders.changes(base).to_pylist()
    assert [(r["_change_type"], r["price"], r["note"], "region" in r) for r in feed] == [
        ("insert", 1.0, "-", False),
        ("delete", 1.0, "-", False),
    ]


def test_rows_that_lack_a_required_column_of_the_end_read_as_null(lake: Lake) -> None:
    """A restore brought back a schema in which a column is required that rows written meanwhile do not have."""
    table = lake.create_table("shop.t", [("id", "long", False), ("x", "long", False), ("s", "struct<a: int, b: int>")])
    good = table.append([{"id": 1, "x": 1, "s": {"a": 1, "b": 2}}]).version
    table.set_nullable("x")
    table.append([{"id": 2, "x": None, "s": None}])
    table.drop_column("x")
    table.append([{"id": 3, "s": {"a": None, "b": 1}}])
    table.restore(good)
    feed = table.changes(good).to_pylist()
    assert sorted((r["_change_type"], r["id"], r["x"], r["s"]) for r in feed if r["id"] > 1) == [
        ("delete", 2, None, None),
        ("delete", 3, None, {"a": None, "b": 1}),
        ("insert", 2, None, None),
        ("insert", 3, None, {"a": None, "b": 1}),
    ]


def test_a_feed_is_cut_to_columns_and_filtered_line_by_line(orders: Table) -> None:
    orders.append([row(n, n) for n in range(1, 6)])
    base = orders.version
    upsert(orders, [row(2, 20), row(3, 30)])
    feed = orders.changes(base, columns=["amount"], where="id = 2")
    assert feed.schema.names == [*FEED, "amount"]
    assert [(r["_change_type"], r["amount"]) for r in feed.to_pylist()] == [("update_before", 2), ("update_after", 20)]
    assert feed.count() == 2
    only_new = orders.changes(base, where="amount > 10")
    assert [r["_change_type"] for r in only_new.to_pylist()] == ["update_after", "update_after"]
    assert orders.changes(base, columns=["_version"]).schema.names == FEED
    for columns, message in [(["idd"], "no column 'idd'"), ("id", "must be a list"), (["id", "id"], "twice")]:
        with pytest.raises(InvalidInput, match=message):
            orders.changes(base, columns=columns)
    with pytest.raises(InvalidInput):
        orders.changes(base, where="nope = 1")


def test_empty_ranges_are_empty_and_wrong_ones_refused(orders: Table, lake: Lake) -> None:
    orders.append([row(1, 1)])
    now = lake.version
    assert orders.changes(now).to_pylist() == []
    assert orders.changes(now, now).count() == 0
    assert orders.changes(now).schema == orders.changes(now - 1).schema
    for since, until in [(now + 1, None), (now - 1, now + 1), (now, now - 1), (0, None), (True, None), ("1", None)]:
        with pytest.raises(InvalidInput):
            orders.changes(since, until)  # type: ignore[arg-type]
    lake.create_database("other")
    assert orders.changes(now, lake.version).to_pylist() == []
    orders.close()
    with pytest.raises(Closed):
        orders.changes(now)


def test_a_column_with_a_name_of_the_feed_is_refused(lake: Lake) -> None:
    table = lake.create_table("shop.t", [("id", "long"), ("_commit_timestamp", "long")])
    with pytest.raises(FailedPrecondition, match="rename the column"):
        table.changes(table.version)


class HandClock(SimulatedClock):
    def __init__(self) -> None:
        self.now = 4_000_000_000 * 10**9

    def __call__(self) -> int:
        self.now += 1000
        return self.now


def test_clean_up_waits_for_a_feed_that_is_being_read(open_lake: OpenLake) -> None:
    clock = HandClock()
    lake = open_lake(clock=clock)
    lake.create_database("shop")
    orders = lake.create_table("shop.orders", EVENTS)
    base = orders.version
    for place in range(3):
        orders.append([row(place, place)])
        orders.delete_where(f"id = {place}")
    clock.now += 10**9
    feed = orders.changes(base)
    batches = feed.to_batches()
    got = [next(batches)]
    orders.append([row(99, 99)])
    collect(lake.catalog, history_keep=0, byte_floor=0)
    assert orders.state().oldest_version == base
    got += list(batches)
    assert sum(batch.num_rows for batch in got) == 6
    collect(lake.catalog, history_keep=0, byte_floor=0)
    oldest = orders.state().oldest_version
    assert oldest > base, "the pin is gone with the last row"
    for read in (feed.to_arrow, feed.count, lambda: orders.changes(base), lambda: orders.changes(base, net=True)):
        with pytest.raises(FailedPrecondition, match=f"oldest possible since is {oldest}"):
            read()
    assert orders.changes(oldest).count() == 0


def test_a_feed_left_early_lets_go_of_its_pin(orders: Table, lake: Lake) -> None:
    base = orders.version
    orders.append([row(1, 1)])
    orders.append([row(2, 2)])
    batches = orders.changes(base).to_batches()
    next(batches)
    collect(lake.own_catalog(), history_keep=0)
    assert orders.state().oldest_version <= base
    batches.close()
    collect(lake.own_catalog(), history_keep=0)
    assert orders.state().oldest_version > base


def test_only_touched_row_groups_are_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("shop.wide", [("id", "long"), ("text", "string")], sort_by=["id"])
    table.append(pa.table({"id": range(50_000), "text": [f"{n:0200}" for n in range(50_000)]}))
    base = table.version
    table.delete_where("id in (7, 49999)")
    decoded: list[int] = []
    pages, whole = PageReader.columns, Decoder.ranges

    def counted_pages(self: PageReader, rows: Any, wanted: Any, coded: Any) -> Any:
        decoded.extend(rows)
        return pages(self, rows, wanted, coded)

    def counted(self: Decoder, ranges: Any, leaves: Any, **more: Any) -> pa.Table:
        decoded.extend(one.group for one in ranges)
        return whole(self, ranges, leaves, **more)

    monkeypatch.setattr(PageReader, "columns", counted_pages)
    monkeypatch.setattr(Decoder, "ranges", counted)
    assert [r["id"] for r in table.changes(base).to_pylist()] == [7, 49999]
    assert len(decoded) == 2


def test_shares_of_a_version_add_up(orders: Table) -> None:
    """Tasks that each read some segments of a version see together what one reader sees."""
    for place in range(4):
        orders.append([row(place * 10 + n, n) for n in range(10)])
    base = orders.version
    upsert(orders, [row(n, -1) for n in range(5, 25)])
    feed = orders.changes(base)
    (change,) = orders._context.catalog.feed(orders.id, base, orders.version)
    assert change_reader.may_match(change)
    parts = [
        batch for place in range(len(change.segments)) for batch in feed._reader.read(change, VectorCache(), {place})
    ]
    together = pa.Table.from_batches(parts).to_pylist()
    assert sorted(map(str, together)) == sorted(map(str, feed.to_pylist()))
    assert {r["_change_type"] for r in together} == {"update_before", "update_after"}


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "delete", "overwrite", "overwrite all", "merge", "restore", "upsert", "upsert"]),
        st.integers(0, 9),
        st.integers(1, 4),
    ),
    max_size=9,
)


@pytest.fixture(scope="module")
def model_lake() -> Iterator[Lake]:
    """In memory where the system has such a folder: hundreds of commits would wait for the disk."""
    memory = Path("/dev/shm")
    parent = memory if memory.is_dir() else None
    with tempfile.TemporaryDirectory(dir=parent) as folder, Lake.open(Path(folder) / "lake") as lake:
        lake.create_database("shop")
        yield lake


def run(table: Table, step: str, new: list[Row], versions: Sequence[int]) -> None:
    first, last = new[0]["id"], new[-1]["id"]
    match step:
        case "append":
            table.append(new)
        case "delete":
            table.delete_where(f"id >= {first} and id <= {last}")
        case "overwrite":
            table.overwrite(new, where=f"id >= {first} and id <= {last}")
        case "overwrite all":
            table.overwrite(new)
        case "merge":
            table.compact(everything=True)
        case "restore":
            table.restore(versions[first % len(versions)])
        case "upsert" if len(set(ids(table))) == len(ids(table)):
            upsert(table, new)


@given(steps=STEPS, ends=st.tuples(st.integers(0, 9), st.integers(0, 9)))
@settings(max_examples=20, deadline=None)
def test_applying_the_feed_gives_the_rows(model_lake: Lake, steps: list[Step], ends: tuple[int, int]) -> None:
    table = model_lake.create_table(f"shop.t{uuid.uuid4().hex}", EVENTS)
    versions, silent = [table.version], set[int]()
    for place, (step, first, count) in enumerate(steps):
        run(table, step, [row(n, place + n / 100) for n in range(first, first + count)], versions)
        if table.version > versions[-1]:
            silent.update(range(versions[-1] + 1, table.version + 1) if step == "merge" else ())
            versions.append(table.version)
    states = {version: state_of(table, version) for version in versions}

    everything = table.changes(versions[0]).to_pylist()
    assert not silent & {change["_version"] for change in everything}
    for version in versions:
        so_far = [change for change in everything if change["_version"] <= version]
        assert applied(states[versions[0]], so_far) == states[version]

    since, until = sorted(versions[end % len(versions)] for end in ends)
    feed = table.changes(since, until)
    assert feed.to_pylist() == [change for change in everything if since < change["_version"] <= until]
    assert feed.count() == len(feed.to_pylist())
    net = table.changes(since, until, net=True).to_pylist()
    assert applied(states[since], net) == states[until]
    assert len(net) <= feed.count()
    assert all(since < change["_version"] <= until for change in net)
