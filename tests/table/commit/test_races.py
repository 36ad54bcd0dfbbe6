"""Deletes, compactions and appends that meet: nothing lost, nothing back from the dead."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moulin.catalog.tasks.merge_tasks import PlannedTask
from moulin.errors import Conflict
from moulin.lake import Lake
from moulin.table.compact.job import commit_compaction, compact_group
from moulin.table.compact.picker import pick
from moulin.table.table import Table
from moulin.table.write.writes import prepare_delete
from tests.table.conftest import EVENTS, OpenLake, ids, rows


def start_compaction(table: Table) -> Callable[[], int]:
    """Run a compaction of all segments up to its commit; the result commits it."""
    state = table.state()
    context = table._context
    segments = context.catalog.segments(state.id, state.version)
    (group,) = pick(segments, context.config, segment_bytes=1 << 28, everything=True)
    change = compact_group(context, state, group, 1 << 28)
    return lambda: commit_compaction(context, change).version


def test_a_delete_that_commits_while_a_compaction_runs_is_carried_over(orders: Table) -> None:
    orders.append(rows(1, 50))
    orders.append(rows(51, 50))
    orders.delete_where("id = 1")
    commit = start_compaction(orders)
    orders.delete_where("id in (2, 60)")
    orders.append(rows(200, 1))
    commit()
    assert ids(orders) == [*range(3, 60), *range(61, 101), 200]
    assert orders.stats().segments == 2


def test_a_delete_that_was_prepared_before_a_compaction_commits_after_it(orders: Table) -> None:
    orders.append(rows(1, 50))
    orders.append(rows(51, 50))
    change, _ = prepare_delete(orders._context, orders.state(), "id in (2, 60)")
    orders.compact(everything=True)
    orders.delete_where("id = 3")
    orders._context.committer.commit([change])
    assert ids(orders) == [1, *range(4, 60), *range(61, 101)]


def test_a_delete_follows_two_compactions(orders: Table) -> None:
    orders.append(rows(1, 50))
    orders.append(rows(51, 50))
    change, _ = prepare_delete(orders._context, orders.state(), "id in (2, 60)")
    orders.compact(everything=True)
    orders.append(rows(101, 50))
    orders.compact(everything=True)
    orders._context.committer.commit([change])
    assert ids(orders) == [1, *range(3, 60), *range(61, 151)]


def test_an_input_emptied_while_a_compaction_runs_stays_empty(orders: Table) -> None:
    orders.append(rows(1, 50))
    orders.append(rows(51, 50))
    commit = start_compaction(orders)
    orders.delete_where("id > 50")
    commit()
    assert ids(orders) == list(range(1, 51))


def test_everything_deleted_while_a_compaction_runs_stays_deleted(orders: Table) -> None:
    orders.append(rows(1, 50))
    orders.append(rows(51, 50))
    commit = start_compaction(orders)
    orders.delete_where("id >= 2")
    orders.delete_where("id = 1")
    commit()
    assert ids(orders) == []


@pytest.mark.parametrize("win", ["overwrite", "restore", "merge"])
def test_a_compaction_loses_to_overwrite_restore_and_another_compaction(orders: Table, win: str) -> None:
    start = orders.version
    orders.append(rows(1, 50))
    orders.append(rows(51, 50))
    commit = start_compaction(orders)
    if win == "overwrite":
        orders.overwrite(rows(500, 3))
    elif win == "restore":
        orders.restore(start)
    else:
        orders.compact(everything=True)
    expected = ids(orders)
    with pytest.raises(Conflict) as caught:
        commit()
    assert caught.value.winner == orders.version
    assert ids(orders) == expected


def test_two_compactions_share_the_work(orders: Table) -> None:
    for n in range(4):
        orders.append(rows(n * 10, 10))
    state = orders.state()
    catalog = orders._context.catalog
    first, second, *_ = (s.facts.number for s in catalog.segments(state.id, state.version))
    begun = catalog.maintenance.create_merge_tasks(
        [PlannedTask(state.id, {first: 0, second: 0}, 1)], worker="somebody"
    )[0]
    assert begun is not None
    assert orders.compact(everything=True).segments_in == 2, "what somebody else works on is left to them"
    assert catalog.maintenance.delete_merge_task(begun.task_id)
    assert orders.compact(everything=True).segments_in == 3
    assert ids(orders) == list(range(40))


def test_concurrent_writers_lose_nothing(open_lake: OpenLake, lake: Lake) -> None:
    """Appends, deletes and compactions from several threads, each with its own connection."""
    table = lake.create_table("shop.busy", EVENTS)
    table.append(rows(0, 100))
    failures: list[Exception] = []

    def work(number: int) -> None:
        try:
            mine = open_lake().table("shop.busy")
            for n in range(4):
                mine.append(rows(1000 * (number + 1) + n * 10, 10))
                mine.delete_where(f"id = {number * 10 + n}")
                mine.delete_where(f"id = {1000 * (number + 1) + n * 10}")
        except Exception as error:  # noqa: BLE001  shown by the assertion below
            failures.append(error)

    def merge() -> None:
        try:
            mine = open_lake().table("shop.busy")
            for _ in range(4):
                mine.compact(everything=random.random() < 0.5)
        except Exception as error:  # noqa: BLE001  shown by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)] + [threading.Thread(target=merge)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    expected = set(range(100)) - {n * 10 + k for n in range(3) for k in range(4)}
    expected |= {1000 * (w + 1) + n * 10 + k for w in range(3) for n in range(4) for k in range(1, 10)}
    assert ids(table) == sorted(expected)
    versions = [entry.version for entry in table.history()]
    assert len(set(versions)) == len(versions)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 30)),
        st.tuples(st.just("delete"), st.integers(2, 7)),
        st.tuples(st.just("overwrite"), st.integers(1, 10)),
        st.tuples(st.just("merge"), st.just(0)),
        st.tuples(st.just("start merge"), st.just(0)),
        st.tuples(st.just("commit merge"), st.just(0)),
        st.tuples(st.just("restore"), st.integers(0, 10)),
    ),
    max_size=12,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_any_sequence_equals_a_plain_model(lake: Lake, steps: list[tuple[str, int]]) -> None:
    """After every step, and at every older version, the table holds what a set of ids holds."""
    lake.drop_table("shop.model", immediate=True) if any(t.name == "model" for t in lake.tables("shop")) else None
    table = lake.create_table("shop.model", EVENTS, event_time="ts")
    live: set[int] = set()
    states = {table.version: frozenset(live)}
    following, running = 0, None
    for step, number in steps:
        if step == "append":
            table.append(rows(following, number))
            live |= set(range(following, following + number))
            following += number
        elif step == "delete":
            table.delete_where(f"id >= {max(0, following - 10)} and id <= {max(0, following - number)}")
            live -= set(range(max(0, following - 10), max(0, following - number) + 1))
        elif step == "overwrite":
            table.overwrite(rows(following, number), where=f"id < {following // 2}")
            live = {n for n in live if n >= following // 2} | set(range(following, following + number))
            following += number
        elif step == "merge":
            table.compact(everything=True)
        elif step == "start merge" and len(table.scan().plan().segments) > 1:
            running = start_compaction(table)
        elif step == "commit merge" and running is not None:
            with suppress(Conflict):
                running()
            running = None
        elif step == "restore":
            version = list(states)[number % len(states)]
            table.restore(version)
            live = set(states[version])
        assert ids(table) == sorted(live)
        states[table.version] = frozenset(live)
    for version, expected in states.items():
        assert ids(table.at(version=version)) == sorted(expected)
