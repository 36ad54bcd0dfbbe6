"""Branches through addresses and by several processes at once, and what the lake's own work does with them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.errors import InvalidInput, MoulinError, NotFound, Unsupported
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.meta.server.janitor_loop import Janitor
from moulin.storage.address import with_branch
from moulin.table.compact.worker import CompactionWorker
from tests.table.conftest import BACKENDS, SERVED, OpenLake

COLUMNS = [("id", "long", False), ("n", "long")]

everywhere = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)


def rows(*ids: int) -> list[dict[str, int]]:
    return [{"id": one, "n": one} for one in ids]


def ids(lake: Lake, name: str = "shop.t") -> list[int]:
    return sorted(lake.table(name).scan().to_arrow()["id"].to_pylist())


@pytest.fixture
def again(lake: Lake, request: pytest.FixtureRequest) -> Callable[..., Lake]:
    """Opens the same lake by its address, with an end."""

    def open_it(branch: str) -> Lake:
        options: dict[str, Any] = {}
        if lake.uri.startswith("postgresql"):
            options = {name: request.getfixturevalue(f"s3_{end}") for name, end in _S3.items()}
        return moulin.connect(with_branch(lake.uri, branch), **options)

    return open_it


_S3 = {"storage": "url", "storage_options": "options"}


@pytest.mark.parametrize("open_lake", [SERVED], indirect=True)
def test_sql_and_expectations_see_tables_that_nobody_has_opened_on_the_branch(lake: Lake) -> None:
    lake.create_table("shop.t", COLUMNS).append(rows(1, 2))
    lake.create_table("shop.keyed", COLUMNS, primary_key=["id"]).append(rows(1))
    branch = lake.branch("exp")
    lake.table("shop.t").append(rows(3))
    assert branch.duckdb().execute("select count(*) from shop.t").fetchall() == [(2,)]
    with lake.trial("load") as trial:
        trial.table("shop.keyed").append(rows(2))
        trial.expect("select count(*) = 3 from shop.t")
        trial.expect("select count(*) = 2 from shop.keyed")
    assert ids(lake, "shop.keyed") == [1, 2]


@everywhere
def test_an_address_opens_a_branch(lake: Lake, again: Callable[..., Lake]) -> None:
    lake.create_table("shop.t", COLUMNS).append(rows(1))
    lake.branch("exp")
    with again("exp") as branch:
        assert (branch.on_branch, branch.uri) == ("exp", with_branch(lake.uri, "exp"))
        branch.table("shop.t").append(rows(2))
        branch.create_table("shop.more", COLUMNS)
        with pytest.raises(Unsupported, match="only be used on main"):
            branch.tokens.tokens("shop")
    assert (ids(lake), ids(lake, "shop.t@exp")) == ([1], [1, 2])
    for missing in ("nope", "EXP", "x" * 100):
        with pytest.raises(NotFound, match="does not exist"):
            again(missing)
    assert [one.name for one in lake.databases()] == ["shop"]


@pytest.mark.parametrize("open_lake", BACKENDS[:1], indirect=True)
def test_nothing_that_is_done_on_a_branch_changes_main(lake: Lake) -> None:
    """Versions, counters, properties, names and Iceberg metadata of main are the same before and after."""
    lake.create_table("shop.t", COLUMNS).append(rows(*range(10)))
    lake.create_table("shop.k", COLUMNS, primary_key=["id"]).put({"id": 1, "n": 1})
    lake.create_view("shop.v", ["t"])
    lake.flush()
    before = _shown(lake)
    branch = lake.branch("exp")
    table, keyed = branch.table("shop.t"), branch.table("shop.k")
    with branch.transaction() as both:
        both.table("shop.t").append(rows(100))
        both.table("shop.k").append(rows(5))
    table.create_index("n")
    table.tag("one")
    version = table.version
    table.delete_where("id < 5")
    table.restore(version)
    table.update({"n": "n + 1"})
    table.add_column("d", "double")
    table.set_properties({"owner": "me"})
    table.compact(everything=True)
    keyed.put({"id": 2, "n": 2})
    branch.flush()
    keyed.compact(everything=True)
    branch.clone_table("shop.t", "shop.c")
    branch.create_table("shop.r", COLUMNS)
    branch.replace_table("shop.c", "shop.r")
    branch.drop_view("shop.v")
    branch.create_view("shop.w", ["t"])
    branch.rename_table("shop.k", "shop.k2")
    branch.rename_database("shop", "store")
    branch.create_database("shop")
    branch.drop_database("shop")
    branch.resurrect_database("shop")
    project(branch.context, table.id)
    assert sorted(one.name for one in branch.tables("store")) == ["c", "k2", "t"]
    assert (ids(branch, "store.t"), ids(branch, "store.k2")) == ([*range(10), 100], [1, 2, 5])
    collect(branch.own_catalog())
    assert check(branch.own_catalog()) == []
    assert _shown(lake) == before


def _shown(lake: Lake) -> list[Any]:
    states = [lake.table(f"shop.{one.name}").state() for one in lake.tables("shop")]
    numbers = [(one.head_version, one.last_sequence, one.next_row_id, one.schema, one.properties) for one in states]
    views = [(one.name, one.members) for one in lake.views("shop")]
    return [numbers, views, lake.databases(), [project(lake.context, one.id).metadata for one in states]]


@everywhere
def test_two_that_open_a_table_first_have_the_same_one(lake: Lake, open_lake: OpenLake) -> None:
    for number in range(4):
        lake.create_table(f"shop.t{number}", COLUMNS).append(rows(number))
    lake.branch("exp")
    others = [open_lake().open_branch("exp") for _ in range(2)]
    barrier = threading.Barrier(2)

    def opened(branch: Lake) -> list[Any]:
        barrier.wait()
        return [branch.table(f"shop.t{number}").id for number in range(4)]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(opened, others)
    assert first == second
    assert lake.catalog.branch("exp").opened == 4


@everywhere
def test_a_branch_that_is_dropped_under_a_reader_never_shows_main(lake: Lake, open_lake: OpenLake) -> None:
    for name in ("t", "u"):
        lake.create_table(f"shop.{name}", COLUMNS).append(rows(1))
    lake.branch("exp")
    reader = open_lake().open_branch("exp")
    table = reader.table("shop.t")
    table.append(rows(2))
    batches = iter(table.scan().to_batches())
    lake.drop_branch("exp")
    with suppress(NotFound):
        assert sum(batch.num_rows for batch in batches) == 2
    for call in (
        lambda: reader.table("shop.u"),
        lambda: reader.table("shop.t"),
        reader.databases,
        lambda: table.append(rows(3)),
    ):
        with pytest.raises(MoulinError) as raised:
            call()
        assert isinstance(raised.value, NotFound), raised.value
    lake.branch("exp")
    assert ids(reader) == [1]  # by its name it is the new one
    assert ids(lake) == [1]


@pytest.mark.parametrize("open_lake", BACKENDS, indirect=True)
def test_tables_that_are_dropped_while_branches_begin_are_whole_or_absent(lake: Lake, open_lake: OpenLake) -> None:
    other = open_lake()
    for number in range(6):
        lake.create_table(f"shop.t{number}", COLUMNS).append(rows(number))

    def drop() -> None:
        for number in range(6):
            other.drop_table(f"shop.t{number}", immediate=True)

    dropping = threading.Thread(target=drop)
    dropping.start()
    branches = [lake.branch(f"b{number}") for number in range(6)]
    dropping.join()
    collect(lake.own_catalog())
    for branch in branches:
        for entry in branch.tables("shop"):
            assert ids(branch, f"shop.{entry.name}") == [int(entry.name[1:])]
    assert lake.tables("shop") == []
    assert check(lake.own_catalog()) == []


@pytest.mark.parametrize("open_lake", BACKENDS, indirect=True)
def test_janitor_and_workers_compact_tables_of_branches(lake: Lake) -> None:
    lake.create_table("shop.t", COLUMNS).append(rows(0))
    lake.create_table("shop.idle", COLUMNS).append(rows(0))
    branch = lake.branch("exp")
    for number in range(1, 12):
        branch.table("shop.t").append(rows(number))
    report = Janitor(lake).run_once()
    assert report is not None
    assert (report.failures, report.tasks > 0) == ([], True)
    assert sum(1 for _ in CompactionWorker(lake.context, "worker").run_all()) == report.tasks
    assert (ids(branch), ids(lake)) == ([*range(12)], [0])
    assert branch.table("shop.t").stats().segments < 12
    assert lake.catalog.branch("exp").opened == 1, "what nobody uses stays unopened"
    assert check(lake.own_catalog()) == []


HOSTILE = ["", "@", "exp@two", "exp/../x", "../x", "a b", "a.b", "x" * 101, "main", "_moulin_x", "é", "a\0b", "-a"]


@everywhere
def test_a_hostile_name_of_a_branch_is_refused_everywhere(lake: Lake) -> None:
    lake.create_table("shop.t", COLUMNS)
    version = lake.version
    for name in HOSTILE:
        with pytest.raises(InvalidInput):
            lake.branch(name)
        calls: list[Callable[[], object]] = [
            partial(lake.open_branch, name),
            partial(lake.drop_branch, name),
            partial(lake.resurrect_branch, name),
            partial(lake.table, f"shop.t@{name}"),
            partial(lake.tables, f"shop@{name}"),
            partial(lake.create_table, f"shop.t@{name}", COLUMNS),
        ]
        for call in calls:
            with pytest.raises((InvalidInput, NotFound)):
                call()
    assert lake.version == version
    assert [one.name for one in lake.tables("shop")] == ["t"]
