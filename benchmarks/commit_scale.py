"""Does a commit grow slower as the table does? One small append's metadata, with a million segments and a thousand."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import big_catalog
from benchmarks.harness import Bench, Contender, Line, Skipped, take_turns
from moulin import Lake
from moulin.model.operations import Kind
from moulin.table.commit.change import DataChange

TITLE = "commit with many segments / with few"
TARGET = 1.5


def run(bench: Bench) -> Iterator[Line]:
    for backend in big_catalog.BACKENDS:
        case = f"{backend}, {bench.segments:,} segments / {min(big_catalog.SMALL, bench.segments):,}"
        try:
            small, large = big_catalog.small_and_large(bench, backend)
        except Skipped as skipped:
            yield Line("commit_scale", case, reason=str(skipped), target=TARGET)
            continue
        bench.step(f"{backend}: {bench.commits} commits each")
        samples = take_turns(
            {"large": _append(large), "small": _append(small)}, bench.commits, warm_up=min(20, bench.commits)
        )
        yield Line("commit_scale", case, samples["large"], samples["small"], "small table", TARGET)


def _append(lake: Lake) -> Contender:
    """Commits of one fresh segment at the end of the year, the facts made beforehand."""
    change: list[DataChange] = []
    place = 0

    def prepare() -> None:
        nonlocal place
        state = lake.table(big_catalog.TABLE).state()
        number = lake.catalog.reserve_segments(1)
        start = big_catalog.START + big_catalog.YEAR - (600 + place) * 1_000_000_000
        place += 1
        facts = big_catalog.segment(state, number, start, start + 30_000_000_000, 0)
        change[:] = [DataChange(state.id, state.version, Kind.APPEND, (facts,))]

    return Contender(lambda: lake.context.committer.commit(change), prepare)
