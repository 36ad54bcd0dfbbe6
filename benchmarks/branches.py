"""A branch of a lake with many tables and segments, and the publish of a hundred commits against making them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import moulin
from benchmarks import big_catalog, events
from benchmarks.harness import Bench, Contender, Line, Sample, Skipped, take_turns
from moulin import Lake

TITLE = "branches"
LATENCY = 0.05
GROWTH = 1.5
PUBLISH = 3.0
_BRANCHES = 20
_TABLES = 1_000
_COMMITS = 100
_ORDERS = [("id", "long", False), ("amount", "double")]


def run(bench: Bench) -> Iterator[Line]:
    tables = min(_TABLES, bench.segments // 10)
    for backend in big_catalog.BACKENDS:
        case = f"{backend}, {tables:,} tables, {bench.segments:,} segments / {big_catalog.SMALL:,}"
        try:
            small, large = big_catalog.small_and_large(bench, backend)
        except Skipped as skipped:
            yield Line("branches", case, reason=str(skipped), target=GROWTH)
            continue
        bench.step(case)
        for lake in (small, large):
            _add_tables(lake, tables)
        contenders = {name: _branching(lake) for name, lake in (("large", large), ("small", small))}
        samples = take_turns(contenders, min(_BRANCHES, bench.commits), warm_up=2)
        yield Line("branches", case, samples["large"], samples["small"], "small lake", GROWTH)
        yield Line(
            "branches", f"{backend}, {tables:,} tables, {bench.segments:,} segments", samples["large"], target=LATENCY
        )
    commits = min(_COMMITS, bench.commits)
    for moved in (False, True):
        case = f"publish of {commits} commits, table {'changed' if moved else 'left alone'} on main"
        bench.step(case)
        made, published = _published(bench, commits, moved=moved)
        yield Line("branches", case, published, made, "making them", PUBLISH)


def _add_tables(lake: Lake, tables: int) -> None:
    """So many tables in all; those of an earlier run count."""
    lake.create_database("many", if_not_exists=True)
    for number in range(len(lake.tables("many")), tables - 1):
        lake.create_table(f"many.t{number}", events.SCHEMA)


def _branching(lake: Lake) -> Contender:
    numbers = count()

    def begin() -> None:
        lake.branch(f"bench{next(numbers)}")

    def drop() -> None:
        for branch in lake.branches():
            lake.drop_branch(branch.name)

    return Contender(begin, drop)


def _published(bench: Bench, commits: int, *, moved: bool) -> tuple[Sample, Sample]:
    """How long commits on a branch took, and their publish: 100 rows each, of a keyed table, half of them new."""
    numbers = count()
    with moulin.connect(bench.folder / f"publish-{moved}") as lake:
        lake.create_database("shop")
        lake.create_table("shop.orders", _ORDERS, primary_key=["id"]).append(_rows(0, 1000))

        def begin() -> None:
            lake.branch(f"b{next(numbers)}")

        def make() -> None:
            (branch,) = lake.branches()
            table = lake.open_branch(branch.name).table("shop.orders")
            for commit in range(commits):
                first = 500 + 50 * (commit + commits * int(branch.name[1:]))
                table.append(_rows(first, first + 100))

        def change_main() -> None:
            if moved:
                lake.table("shop.orders").append(_rows(-next(numbers) - 1, -next(numbers)))

        def publish() -> None:
            (branch,) = lake.branches()
            lake.publish(branch.name)

        contenders = {"made": Contender(make, begin), "published": Contender(publish, change_main)}
        samples = take_turns(contenders, bench.runs, warm_up=1)
    return samples["made"], samples["published"]


def _rows(first: int, last: int) -> list[dict[str, float]]:
    return [{"id": number, "amount": number / 2} for number in range(first, last)]
