"""Timing of contenders in turns, and the lines a benchmark reports.

A benchmark is a module with `TITLE` and `run(bench)`, which yields a `Line` per comparison as soon as it has one.
Contenders take turns (ours, peer, ours, peer, ...) after a warm-up of each, so that a machine that grows slower or
faster does so for both.
"""

from __future__ import annotations

import os
import statistics
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from benchmarks import events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from moulin import Lake


class Skipped(Exception):
    """A contender is not there; the message is the reason shown."""


class Status(StrEnum):
    OK = "ok"
    OVER = "over"
    NO_TARGET = "-"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds of several runs."""

    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.seconds:
            raise ValueError("A sample needs at least one run.")

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and the third; between them lies the middle half of the runs."""
        if len(self.seconds) == 1:
            return self.seconds[0], self.seconds[0]
        first, _, third = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return first, third


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison. The target bounds the ratio of the medians or, where there is no peer, our median in seconds."""

    benchmark: str
    case: str
    ours: Sample | None = None
    peer: Sample | None = None
    peer_name: str = ""
    target: float | None = None
    reason: str = ""
    failed: bool = False
    unit: str = ""  # of the figures, where they are not seconds

    @property
    def ratio(self) -> float | None:
        return None if self.ours is None or self.peer is None else self.ours.median / self.peer.median

    @property
    def figure(self) -> float | None:
        """What the target bounds."""
        return self.ratio if self.peer is not None or self.ours is None else self.ours.median

    @property
    def status(self) -> Status:
        if self.failed:
            return Status.FAILED
        if self.figure is None:
            return Status.SKIPPED
        if self.target is None:
            return Status.NO_TARGET
        return Status.OK if self.figure <= self.target else Status.OVER

    def to_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark,
            "case": self.case,
            "status": self.status.value,
            "ours": None if self.ours is None else _sample_json(self.ours),
            "peer": None if self.peer is None else {"name": self.peer_name, **_sample_json(self.peer)},
            "ratio": self.ratio,
            "target": self.target,
            "unit": self.unit or "s",
            "reason": self.reason,
        }


def _sample_json(sample: Sample) -> dict[str, Any]:
    return {"median": sample.median, "quartiles": list(sample.quartiles), "seconds": list(sample.seconds)}


@dataclass(frozen=True, slots=True)
class Contender:
    """What is timed, and what must be done before each run without being timed."""

    run: Callable[[], object]
    prepare: Callable[[], object] | None = None


def _settle(most: float = 0.25) -> None:
    """Wait until the threads of this process are idle, at most `most` seconds: some are meant to be busy."""
    end = time.monotonic() + most
    before = time.process_time()
    while time.monotonic() < end:
        time.sleep(0.005)
        now = time.process_time()
        if now - before < 0.0005:
            return
        before = now


def take_turns(
    contenders: Mapping[str, Contender],
    runs: int,
    *,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
    after_turn: Callable[[], None] | None = None,
) -> dict[str, Sample]:
    """Run all contenders in turns, `warm_up` times unmeasured and then `runs` times measured.

    What was written before a run is on disk when its clock starts: an fsync of one contender would otherwise pay for
    what another left in the page cache. Threads that a contender left at work are done by then, too: polars, for one,
    goes on for some milliseconds after it has found enough rows.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(warm_up + runs):
        for name, contender in contenders.items():
            _settle()
            if contender.prepare is not None:
                contender.prepare()
            os.sync()
            start = clock()
            contender.run()
            taken = clock() - start
            if turn >= warm_up:
                seconds[name].append(taken)
        if after_turn is not None:
            after_turn()
    return {name: Sample(tuple(values)) for name, values in seconds.items()}


@dataclass(slots=True)
class Bench:
    """What benchmarks run with: their scale, a scratch folder, and what they share so that it is made once."""

    folder: Path
    rows: int = 5_000_000
    runs: int = 5
    segments: int = 1_000_000
    commits: int = 200
    peers: bool = True  # whether engines may be fetched that are not installed here
    only_cases: tuple[str, ...] = ()  # parts of names; all cases if none
    only_peers: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()  # rows of the tables of `growth`; rows, 4 and 16 times as many if none
    fetched: Path | None = None  # where engines that were fetched are kept
    on_step: Callable[[str], None] = lambda text: None
    _shared: dict[str, Any] = field(default_factory=dict)

    def step(self, text: str) -> None:
        """Say what is being done now."""
        self.on_step(text)

    def wants_case(self, name: str) -> bool:
        return not self.only_cases or any(part.lower() in name.lower() for part in self.only_cases)

    def wants_peer(self, name: str) -> bool:
        return not self.only_peers or name.lower() in {peer.lower() for peer in self.only_peers}

    def compare(
        self,
        benchmark: str,
        case: str,
        ours: Contender | Callable[[], object],
        peers: Mapping[str, Contender | Callable[[], object]],
        *,
        target: float | None = None,
        runs: int | None = None,
    ) -> Line:
        """Ours against the fastest of `peers`."""
        runs = runs or self.runs
        contenders = {"": _contender(ours), **{name: _contender(peer) for name, peer in peers.items()}}
        turn = 0

        def after_turn() -> None:
            nonlocal turn
            turn += 1
            self.step(f"{case}: run {turn} of {runs + 1}")

        self.step(f"{case}: warm-up")
        samples = take_turns(contenders, runs, after_turn=after_turn)
        fastest = min(peers, key=lambda name: samples[name].median)
        return Line(benchmark, case, samples[""], samples[fastest], fastest, target)

    def shared(self, name: str, make: Callable[[], Any]) -> Any:
        """A value made by the first benchmark that asks for it."""
        if name not in self._shared:
            self._shared[name] = make()
        return self._shared[name]

    def events(self) -> Path:
        """The generated rows as a folder of Parquet files."""

        def make() -> Path:
            self.step(f"making {self.rows:,} events")
            return events.write(self.folder / "events", self.rows)

        path: Path = self.shared("events", make)
        return path

    def lake(self) -> Lake:
        """An embedded lake with Spark at hand and an empty database `bench`."""

        def make() -> Lake:
            import moulin

            # Compactions at any scale go to Spark, as large ones would.
            lake = moulin.connect(self.folder / "lake", merge_local_bytes=1)
            lake.create_database("bench")
            return lake

        lake: Lake = self.shared("lake", make)
        return lake

    def spark(self) -> SparkSession:
        """The session of the lake, which the peers use too. Raises Skipped where Spark cannot run."""

        def make() -> SparkSession:
            from moulin.errors import FailedPrecondition

            self.step("starting Spark")
            try:
                return self.lake().spark()
            except (ImportError, FailedPrecondition) as error:
                raise Skipped(f"no Spark: {error}") from error

        session: SparkSession = self.shared("spark", make)
        return session

    def close(self) -> None:
        """Close lakes and servers, the last made first. Spark's session ends with the process."""
        while self._shared:
            _, value = self._shared.popitem()
            if hasattr(value, "close"):
                value.close()


def _contender(value: Contender | Callable[[], object]) -> Contender:
    return value if isinstance(value, Contender) else Contender(value)


def run_all(
    bench: Bench, benchmarks: Iterable[ModuleType], on_error: Callable[[str], None] = lambda text: None
) -> Iterator[Line]:
    """The lines of all benchmarks. One that cannot run, or that fails, gives a line that says so and stops no other."""
    for module in benchmarks:
        name = name_of(module)
        try:
            yield from module.run(bench)
        except Skipped as skipped:
            yield Line(name, module.TITLE, reason=str(skipped))
        except Exception as error:  # noqa: BLE001 - shown in its line, so that the other benchmarks still run
            on_error(traceback.format_exc())
            yield Line(name, module.TITLE, reason=_short(error), failed=True)


def name_of(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def _short(error: Exception, limit: int = 200) -> str:
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    return text if len(text) <= limit else f"{text[:limit]}..."


def exit_code(lines: Sequence[Line]) -> int:
    """A missed target is no failure; a benchmark that could not finish is."""
    return 1 if any(line.failed for line in lines) else 0
