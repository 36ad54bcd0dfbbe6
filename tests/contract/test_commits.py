"""Commits: numbers given once, transactions over several tables, requests sent twice, restore, leases and pins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from moulin.catalog.catalog import Catalog
from moulin.catalog.commit.table_commit import CommitResult, Stale, TableCommit
from moulin.catalog.tasks.merge_tasks import PlannedTask
from moulin.errors import InvalidInput, NotFound
from moulin.model.operations import (
    AlterSchema,
    Append,
    Compact,
    Delete,
    Expected,
    Kind,
    Overwrite,
    Restore,
    SetPartitioning,
    SetProperties,
)
from moulin.model.schema.change import AddColumn
from tests.contract.samples import commit, journal, live, make_table, segment, vector


def test_row_ids_and_sequences_run_on(catalog: Catalog) -> None:
    state = make_table(catalog)
    made = [segment(catalog, state.id, rows=rows) for rows in (5, 7, 11, 13)]
    commit(catalog, state.id, Append(added=(made[0], made[1])))
    commit(catalog, state.id, SetProperties({"a": "b"}))
    commit(catalog, state.id, Overwrite(everything=True, added=(made[2],)))
    commit(catalog, state.id, Restore(state.version))
    version = commit(catalog, state.id, Append(added=(made[3],))).version
    found = catalog.segments(state.id, version)
    assert [(s.first_row_id, s.sequence) for s in found] == [(23, 4)], "numbers of removed segments are not used again"
    after = catalog.table_by_id(state.id)
    assert (after.next_row_id, after.last_sequence) == (36, 4)
    history = catalog.history(state.id)[::-1]
    assert [(c.sequence, c.first_row_id, c.added_rows) for c in history] == [
        (0, 0, 0),
        (1, 0, 12),
        (1, 12, 0),
        (2, 12, 11),
        (3, 23, 0),
        (4, 23, 13),
    ]
    at = [catalog.table_by_id(state.id, c.version) for c in history]
    assert [s.next_row_id for s in at] == [0, 12, 12, 23, 23, 36]
    sequences, versions = catalog.sequence_versions(state.id)
    assert sequences == [0, 1, 2, 3, 4]
    assert versions == [history[n].version for n in (0, 1, 3, 4, 5)]


def test_several_operations_on_one_table_are_one_version(catalog: Catalog) -> None:
    state = make_table(catalog)
    a, b = segment(catalog, state.id), segment(catalog, state.id)
    read = catalog.version()
    result = catalog.commit(
        [
            TableCommit(state.id, read, SetProperties({"a": "b"})),
            TableCommit(state.id, read, Append(added=(a,))),
            TableCommit(state.id, read, Append(added=(b,))),
            TableCommit(state.id, read, Delete(vectors=(vector(state.id, a.number, 4),))),
        ]
    )
    assert result.version == read + 1
    assert live(catalog, state.id) == {a.number: 6, b.number: 10}
    history = catalog.history(state.id)
    assert [(c.version, c.ordinal, c.kind) for c in history[:4]] == [
        (result.version, 3, Kind.DELETE),
        (result.version, 2, Kind.APPEND),
        (result.version, 1, Kind.APPEND),
        (result.version, 0, Kind.SET_PROPERTIES),
    ]
    assert {c.sequence for c in history[:3]} == {1}, "one number for all, though a setting came first"
    assert len({c.snapshot_id for c in history[:4]}) == 1
    assert [s.first_row_id for s in catalog.segments(state.id, result.version)] == [0, 10]
    assert catalog.count_rows(state.id, result.version) == 16


def test_a_transaction_over_tables_is_all_or_nothing(catalog: Catalog) -> None:
    one, two = make_table(catalog, "one"), make_table(catalog, "two")
    read = catalog.version()
    a, b, c = segment(catalog, one.id), segment(catalog, two.id), segment(catalog, one.id)
    both = [TableCommit(one.id, read, Append(added=(a,))), TableCommit(two.id, read, Append(added=(b,)))]
    version = catalog.commit(both).version
    assert (live(catalog, one.id, version), live(catalog, two.id, version)) == ({a.number: 10}, {b.number: 10})
    assert live(catalog, one.id, version - 1) == {}
    commit(catalog, two.id, Delete(removed=(Expected(b.number, 0),)))
    before = catalog.version()
    with pytest.raises(Stale):
        catalog.commit(
            [
                TableCommit(one.id, version, Append(added=(c,))),
                TableCommit(two.id, version, Delete(removed=(Expected(b.number, 0),))),
            ]
        )
    with pytest.raises(NotFound):
        catalog.drop_table("d", "two")
        catalog.commit(
            [TableCommit(one.id, version, Append(added=(c,))), TableCommit(two.id, version, SetProperties({"a": "b"}))]
        )
    assert live(catalog, one.id) == {a.number: 10}
    assert catalog.history(one.id)[0].version == version
    assert catalog.version() == before + 1


def test_nothing_is_not_a_commit(catalog: Catalog) -> None:
    with pytest.raises(InvalidInput):
        catalog.commit([])


def test_a_request_sent_twice_is_done_once(catalog: Catalog) -> None:
    state = make_table(catalog)
    a = segment(catalog, state.id)
    assert catalog.committed("r1") is None
    first = commit(catalog, state.id, Append(added=(a,)), request_id="r1")
    again = commit(catalog, state.id, Append(added=(a,)), request_id="r1")
    assert again == CommitResult(first.version, first.timestamp_ns, replayed=True)
    assert catalog.committed("r1") == again
    assert live(catalog, state.id) == {a.number: 10}
    assert catalog.version() == first.version


def test_a_request_that_failed_may_be_sent_again(catalog: Catalog) -> None:
    state = make_table(catalog)
    with pytest.raises(Stale):
        commit(catalog, state.id, Delete(removed=(Expected(5, 0),)), request_id="r1")
    a = segment(catalog, state.id)
    assert not commit(catalog, state.id, Append(added=(a,)), request_id="r1").replayed


def test_one_request_sent_by_several_at_once_is_done_once(catalog: Catalog) -> None:
    state = make_table(catalog)
    for round_ in range(4):
        a = segment(catalog, state.id)

        def send(_: int, added: object = a, request: str = f"r{round_}") -> CommitResult:
            return commit(catalog, state.id, Append(added=(added,)), request_id=request)  # type: ignore[arg-type]

        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(send, range(4)))
        assert sorted(r.replayed for r in results) == [False, True, True, True]
        assert len({r.version for r in results}) == 1
    assert len(live(catalog, state.id)) == 4


def test_restore_brings_back_rows_vectors_and_settings(catalog: Catalog) -> None:
    state = make_table(catalog, properties={"a": "1"})
    a, b, c = (segment(catalog, state.id, time_min=5, time_max=9) for _ in range(3))
    commit(catalog, state.id, Append(added=(a, b)))
    target = commit(catalog, state.id, Delete(vectors=(vector(state.id, a.number, 3),))).version
    seen = catalog.segments(state.id, target)
    commit(catalog, state.id, AlterSchema((AddColumn("x", "int"),)))  # type: ignore[arg-type]
    commit(catalog, state.id, SetPartitioning(("region",)))
    commit(catalog, state.id, SetProperties({"a": "2"}))
    assert seen[0].vector is not None
    commit(catalog, state.id, Delete(vectors=(vector(state.id, a.number, 8, seen[0].vector.id),)))
    commit(catalog, state.id, Overwrite(everything=True, added=(c,)))
    overwritten = catalog.version()
    version = commit(catalog, state.id, Restore(target)).version
    assert catalog.segments(state.id, version) == seen
    assert catalog.segments(state.id, version, time_range=(9, None)) == seen
    after = catalog.table_by_id(state.id)
    assert (after.schema_id, after.spec_id) == (state.schema_id, state.spec_id)
    assert after.properties == {"a": "2"}, "properties are not data"
    assert after.last_column_id == 4
    assert live(catalog, state.id, overwritten) == {c.number: 10}
    entry = catalog.table_entry(state.id)
    assert (entry.segments, entry.rows) == (2, 17)
    assert catalog.history(state.id)[0].summary["restored-version"] == str(target)
    back = commit(catalog, state.id, Restore(overwritten)).version
    assert live(catalog, state.id, back) == {c.number: 10}


def test_restoring_what_is_there_changes_no_segment(catalog: Catalog) -> None:
    state = make_table(catalog)
    a, b = segment(catalog, state.id), segment(catalog, state.id)
    version = commit(catalog, state.id, Append(added=(a,))).version
    commit(catalog, state.id, Append(added=(b,)))
    commit(catalog, state.id, Restore(version))
    commit(catalog, state.id, Restore(version))
    assert "added-data-files" not in catalog.history(state.id)[0].summary
    assert live(catalog, state.id) == {a.number: 10}
    commit(catalog, state.id, Delete(vectors=(vector(state.id, a.number, 1),)))
    commit(catalog, state.id, Restore(version))
    assert live(catalog, state.id) == {a.number: 10}


def test_restoring_the_same_version_twice_at_once_adds_each_segment_once(catalog: Catalog) -> None:
    """What the first restore opened again is there already when the second one looks."""
    state = make_table(catalog)
    a, b = segment(catalog, state.id), segment(catalog, state.id)
    target = commit(catalog, state.id, Append(added=(a,))).version
    commit(catalog, state.id, Overwrite(everything=True, added=(b,)))
    for _ in range(2):
        version = commit(catalog, state.id, Restore(target)).version
        assert live(catalog, state.id, version) == {a.number: 10}
        assert catalog.table_entry(state.id).segments == 1


def test_compactions_are_found_by_what_they_consumed(catalog: Catalog) -> None:
    state = make_table(catalog)
    a, b, c, d = (segment(catalog, state.id) for _ in range(4))
    commit(catalog, state.id, Append(added=(a, b)))
    j1, j2, j3, j4 = sorted(journal(state.id) for _ in range(4))
    first = commit(
        catalog,
        state.id,
        Compact(removed=(Expected(a.number, 0), Expected(b.number, 0)), added=(c,), journals=(j2, j1)),
    ).version
    second = commit(catalog, state.id, Compact(removed=(Expected(c.number, 0),), added=(d,), journals=(j3,))).version
    found = catalog.compactions_of(state.id, [b.number, c.number, d.number], 0)
    assert [(m.segment, m.version, m.journals) for m in found] == [
        (b.number, first, (j1, j2)),
        (c.number, second, (j3,)),
    ]
    assert [m.segment for m in catalog.compactions_of(state.id, [a.number, c.number], first)] == [c.number]
    commit(catalog, state.id, Restore(first - 1))
    third = commit(catalog, state.id, Compact(removed=(Expected(a.number, 0),), journals=(j4,))).version
    assert [m.version for m in catalog.compactions_of(state.id, [a.number], 0)] == [first, third], (
        "a segment may come back"
    )


def planned(*numbers: int) -> PlannedTask:
    return PlannedTask(UUID(int=0), dict.fromkeys(numbers, 0), 1)


def test_a_segment_is_an_input_of_one_merge_task(catalog: Catalog) -> None:
    first, second = catalog.maintenance.create_merge_tasks([planned(1, 2, 3), planned(4)])
    assert first is not None
    assert second is not None
    made = catalog.maintenance.create_merge_tasks([planned(3, 5), planned(6, 7), planned(4)])
    assert [claim is None for claim in made] == [True, False, True]
    assert catalog.maintenance.merge_inputs_held(range(10)) == {1, 2, 3, 4, 6, 7}
    assert catalog.maintenance.delete_merge_task(first.task_id)
    assert not catalog.maintenance.delete_merge_task(first.task_id)
    assert catalog.maintenance.create_merge_tasks([planned(3, 5)]) != [None]
    assert catalog.maintenance.create_merge_tasks([]) == []
    with pytest.raises(InvalidInput, match="not share segments"):
        catalog.maintenance.create_merge_tasks([planned(20, 21), planned(21)])


def test_inputs_wanted_by_many_at_once_are_given_once(catalog: Catalog) -> None:
    def create(n: int) -> int:
        plans = [planned(first, first + 1) for first in range(n, n + 1200, 2)]
        return sum(claim is not None for claim in catalog.maintenance.create_merge_tasks(plans))

    with ThreadPoolExecutor(4) as pool:
        made = sum(pool.map(create, range(4)))
    tasks = catalog.maintenance.merge_tasks()
    assert len(tasks) == made
    assert len(catalog.maintenance.merge_inputs_held(range(1300))) == 2 * made, "no task has an input of another"


def test_a_compaction_frees_its_inputs(catalog: Catalog) -> None:
    state = make_table(catalog)
    a = segment(catalog, state.id)
    commit(catalog, state.id, Append(added=(a,)))
    catalog.maintenance.create_merge_tasks([planned(a.number)])
    commit(catalog, state.id, Compact(removed=(Expected(a.number, 0),)))
    assert catalog.maintenance.merge_inputs_held([a.number]) == set()


def test_pins_live_while_they_are_renewed(catalog: Catalog) -> None:
    state = make_table(catalog)
    version = catalog.version()
    pin = catalog.pin(state.id, state.version)
    catalog.renew_pin(pin)
    catalog.unpin(pin)
    with pytest.raises(NotFound, match="pin"):
        catalog.renew_pin(pin)
    catalog.unpin(pin)
    assert catalog.version() == version, "leases and pins take no version"
