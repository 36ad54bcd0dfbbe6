"""What changed between two versions, as the catalog knows it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.segments import feed
from moulin.catalog.segments.feed import FeedEntry
from moulin.catalog.upkeep.gc import collect
from moulin.config import DAY
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.model.entities import TableState
from moulin.model.operations import Append, Compact, Delete, Expected, Overwrite, Restore, SetProperties
from tests.contract.conftest import (
    BACKENDS,
    Backend,
    HandClock,
    backend,
    sqlite_template,
)
from tests.contract.samples import commit, make_table, segment, vector

__all__ = ["backend", "sqlite_template"]

Seen = tuple[int | None, int | None]
SEARCH = "SEARCH segment_spans USING INDEX spans_removed (table_id=? AND removed_version"


@pytest.fixture
def clock() -> HandClock:
    """Far in the future, so that objects just written are in its past."""
    clock = HandClock()
    clock.now = 4_000_000_000 * 10**9
    return clock


@pytest.fixture
def catalog(backend: Backend, clock: HandClock) -> Catalog:
    return backend.open(backend.new_uri(), clock=clock)


@pytest.fixture
def table(catalog: Catalog) -> TableState:
    return make_table(catalog)


def seen(change: FeedEntry) -> dict[int, Seen]:
    """Deleted rows by segment number, before and after; None when it is not live."""
    found: dict[int, Seen] = {}
    for pair in change.segments:
        one = pair.before or pair.after
        assert one is not None
        counts = [None if side is None else side.facts.rows - side.live_rows for side in (pair.before, pair.after)]
        found[one.facts.number] = (counts[0], counts[1])
    return found


def listed(catalog: Catalog, table_id: UUID, since: int, until: int | None = None) -> dict[int, dict[int, Seen]]:
    last = catalog.version() if until is None else until
    return {change.version: seen(change) for change in catalog.feed(table_id, since, last)}


def vector_of(catalog: Catalog, table_id: UUID, number: int) -> int:
    found = catalog.segments_by_number(table_id, [number], catalog.version())[number].vector
    return found.id if found else 0


def test_each_version_names_the_segments_it_touched(catalog: Catalog, table: TableState) -> None:
    one, two, three = (segment(catalog, table.id) for _ in range(3))
    added = commit(catalog, table.id, Append(added=(one, two))).version
    marked = commit(catalog, table.id, Delete(vectors=(vector(table.id, one.number, 3),))).version
    again = commit(
        catalog, table.id, Delete(vectors=(vector(table.id, one.number, 5, vector_of(catalog, table.id, one.number)),))
    ).version
    commit(catalog, table.id, SetProperties({"a": "b"}))
    removed = commit(
        catalog,
        table.id,
        Overwrite(added=(three,), removed=(Expected(one.number, vector_of(catalog, table.id, one.number)),)),
    ).version
    back = commit(catalog, table.id, Restore(marked)).version
    assert listed(catalog, table.id, table.version) == {
        added: {one.number: (None, 0), two.number: (None, 0)},
        marked: {one.number: (0, 3)},
        again: {one.number: (3, 5)},
        removed: {one.number: (5, None), three.number: (None, 0)},
        back: {one.number: (None, 3), three.number: (0, None)},
    }
    assert listed(catalog, table.id, marked, removed).keys() == {again, removed}
    assert listed(catalog, table.id, back) == {}
    first = next(catalog.feed(table.id, table.version, added))
    assert first.next_row_id == 0
    assert next(catalog.feed(table.id, back - 1, back)).next_row_id == 30


def test_net_compares_the_two_ends(catalog: Catalog, table: TableState) -> None:
    one, two, three = (segment(catalog, table.id) for _ in range(3))
    base = commit(catalog, table.id, Append(added=(one,))).version
    commit(catalog, table.id, Append(added=(two,)))
    commit(catalog, table.id, Delete(removed=(Expected(two.number, 0),)))
    commit(catalog, table.id, Delete(vectors=(vector(table.id, one.number, 3),)))
    last = commit(catalog, table.id, Append(added=(three,)))
    (change,) = catalog.feed(table.id, base, last.version, net=True)
    assert seen(change) == {one.number: (0, 3), three.number: (None, 0)}
    assert (change.version, change.timestamp_ns, change.next_row_id) == (last.version, last.timestamp_ns, 10)
    assert [commit.version for commit in change.commits] == list(range(base + 1, last.version + 1))
    restored = commit(catalog, table.id, Restore(base)).version
    (change,) = catalog.feed(table.id, base, restored, net=True)
    assert change.segments == ()


def test_a_compaction_is_silent_but_not_what_is_around_it(catalog: Catalog, table: TableState) -> None:
    one, two, merged = segment(catalog, table.id), segment(catalog, table.id), segment(catalog, table.id, rows=20)
    commit(catalog, table.id, Append(added=(one,)))
    base = commit(catalog, table.id, Append(added=(two,))).version
    inputs = (Expected(one.number, 0), Expected(two.number, 0))
    commit(catalog, table.id, Compact(added=(merged,), removed=inputs))
    marked = commit(catalog, table.id, Delete(vectors=(vector(table.id, merged.number, 1),))).version
    assert listed(catalog, table.id, base) == {marked: {merged.number: (0, 1)}}


def test_two_operations_of_one_version_are_one_change(catalog: Catalog, table: TableState) -> None:
    """A segment that comes and is marked in one version came with the mark."""
    one = segment(catalog, table.id)
    base = catalog.version()
    operations = [Append(added=(one,)), Delete(vectors=(vector(table.id, one.number, 4),))]
    version = catalog.commit([TableCommit(table.id, base, operation) for operation in operations]).version
    assert listed(catalog, table.id, base) == {version: {one.number: (None, 4)}}


@pytest.mark.parametrize(("versions", "spans"), [(1, 1), (2, 4096), (128, 2)])
def test_long_ranges_are_read_in_several_snapshots(
    catalog: Catalog, table: TableState, monkeypatch: pytest.MonkeyPatch, versions: int, spans: int
) -> None:
    monkeypatch.setattr(feed, "_VERSIONS", versions)
    monkeypatch.setattr(feed, "_SPANS", spans)
    expected: dict[int, dict[int, Seen]] = {}
    for place in range(7):
        if place % 3 == 2:
            commit(catalog, table.id, SetProperties({"place": str(place)}))
            catalog.create_database(f"other{place}")
            continue
        new = segment(catalog, table.id), segment(catalog, table.id)
        version = commit(catalog, table.id, Append(added=new)).version
        expected[version] = {facts.number: (None, 0) for facts in new}
    assert listed(catalog, table.id, table.version) == expected
    assert catalog.changed_versions(table.id, table.version, catalog.version(), 2) == sorted(expected)[:2]


def test_ranges_that_are_not_there_are_refused(catalog: Catalog) -> None:
    catalog.create_database("early")
    table = make_table(catalog)
    commit(catalog, table.id, Append(added=(segment(catalog, table.id),)))
    now = catalog.version()
    for since, until, message in [
        (now + 1, None, "does not exist yet"),
        (table.version, now + 1, "does not exist yet"),
        (now, table.version, "cannot end at the older"),
        (table.version - 1, now, f"read changes since version {table.version}"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            catalog.state_until(table.id, since, until)
    assert catalog.state_until(table.id, now).version == now
    assert list(catalog.feed(table.id, now, now)) == []


@pytest.mark.parametrize("backend", BACKENDS, indirect=True)  # a server reads ahead of those who ask it
def test_what_clean_up_has_passed_is_refused_also_while_reading(
    catalog: Catalog, table: TableState, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "_VERSIONS", 1)
    numbers = [segment(catalog, table.id) for _ in range(3)]
    for facts in numbers:
        commit(catalog, table.id, Append(added=(facts,)))
    commit(catalog, table.id, Delete(removed=(Expected(numbers[0].number, 0),)))
    reading = catalog.feed(table.id, table.version, catalog.version())
    assert next(reading).version == table.version + 1
    clock.forward(30 * DAY)
    commit(catalog, table.id, Append(added=(segment(catalog, table.id),)))
    collect(catalog)
    oldest = catalog.table_by_id(table.id).oldest_version
    assert oldest > table.version + 1
    with pytest.raises(FailedPrecondition, match=f"oldest possible since is {oldest}"):
        next(reading)
    for net in (False, True):
        with pytest.raises(FailedPrecondition, match="were cleaned up"):
            list(catalog.feed(table.id, oldest - 1, catalog.version(), net=net))
    assert list(listed(catalog, table.id, oldest)) == [catalog.version() - 1]


def test_a_version_that_was_lost_with_a_catalog_is_refused(catalog: Catalog, table: TableState) -> None:
    """A reader that was ahead of what recovery found has seen changes that never happened."""
    from moulin.catalog.sql import schema as s

    kept = commit(catalog, table.id, Append(added=(segment(catalog, table.id),))).version
    with catalog.pool.write() as write:
        write.version = kept + 1000
        write.connection.execute(
            s.incarnations.insert().values(number=2, continues_from=kept, first_version=kept + 1000, started_at=0)
        )
    later = commit(catalog, table.id, Append(added=(segment(catalog, table.id),))).version
    with pytest.raises(FailedPrecondition, match=f"recovered to version {kept}"):
        catalog.state_until(table.id, kept + 1)
    assert [change.version for change in catalog.feed(table.id, kept, later)] == [later]


def test_a_short_range_of_a_long_history_scans_nothing(catalog: Catalog, table: TableState) -> None:
    """What is asked of the spans is answered from an index, for one table and a range of versions."""
    if not catalog.pool.is_sqlite:
        pytest.skip("SQLite says in its plan how it looks; PostgreSQL decides by how many rows there are")
    asked: list[tuple[str, Any]] = []
    with catalog.pool.read() as connection:

        def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
            if "segment_spans" in statement:
                asked.append((statement, parameters))

        sa.event.listen(connection.engine, "before_cursor_execute", note)
        feed._touched(connection, table.id, table.version, table.version + 5)
        sa.event.remove(connection.engine, "before_cursor_execute", note)
        [(statement, parameters)] = asked
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
        steps = [str(step[-1])[: len(SEARCH)] for step in plan if str(step[-1]).startswith(("SEARCH", "SCAN"))]
        assert steps == [SEARCH] * 3
