"""A clone of a table without copies: at two sizes, since it must not cost more for more segments."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from benchmarks import big_catalog
from benchmarks.harness import Bench, Contender, Line, Skipped, take_turns
from moulin import Lake

TITLE = "clone of a table"
TARGET = 1.5
_CLONES = 20


def run(bench: Bench) -> Iterator[Line]:
    for backend in big_catalog.BACKENDS:
        case = f"{backend}, {bench.segments:,} segments / {big_catalog.SMALL:,}"
        try:
            small, large = big_catalog.small_and_large(bench, backend)
        except Skipped as skipped:
            yield Line("clones", case, reason=str(skipped), target=TARGET)
            continue
        bench.step(case)
        numbers = count()
        contenders = {
            name: Contender(lambda lake=lake, numbers=numbers: clone(lake, next(numbers)))
            for name, lake in (("large", large), ("small", small))
        }
        samples = take_turns(contenders, min(_CLONES, bench.commits), warm_up=2)
        yield Line("clones", case, samples["large"], samples["small"], "small table", TARGET)


def clone(lake: Lake, number: int) -> None:
    lake.clone_table(big_catalog.TABLE, f"bench.clone{number}")
