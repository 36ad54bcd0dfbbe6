"""Delta Lake, Iceberg and Paimon on Spark beside Moulin: the same steps on the same rows, in rounds that interleave.

Each side is also divided by plain Parquet that does the nearest thing on the same Spark: their Spark versions differ.
Every change ends with the same count and sums on every side, or there is no ratio.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import events
from benchmarks.harness import Bench, Line, Sample
from benchmarks.memory import Watch
from benchmarks.peer_process import AGGREGATE, DELETE, SUMMARY, UPDATE, Plain, folder_size
from benchmarks.sql_peer import RELEASES, Peer, Unreachable

TITLE = "load, upsert, delete, update, aggregate, compact / Delta, Iceberg, Paimon on Spark"
NAME = "peers"
FEW = events.USERS // 100  # users below are a random hundredth of the rows
STEPS = ("load", "upsert", "delete", "update", "aggregate", "compact", "aggregate compacted")
TARGETS = {
    ("load", "Iceberg"): 1.05,
    ("upsert", "Paimon"): 1.0,
    ("aggregate", "Iceberg"): 1.0,
    ("compact", "Paimon"): 1.0,
}
_UPSERTED = 100_000
_CHECKED = {"upsert", "delete", "update", "compact"}
_MIB = "MiB"


class _Side(ABC):
    """Something that runs the steps, and plain Parquet beside it."""

    def __init__(self, name: str, events: Path, changed: Path) -> None:
        self.name, self._events, self._changed = name, events, changed
        self.figures: dict[str, list[float]] = defaultdict(list)
        self.pid = os.getpid()

    @abstractmethod
    def step(self, name: str) -> None: ...

    @abstractmethod
    def plain_step(self, name: str) -> None: ...

    @abstractmethod
    def summary(self) -> list[Any]:
        """Count and sums of the table."""

    @abstractmethod
    def plain_summary(self) -> list[Any]: ...

    @abstractmethod
    def size(self) -> int:
        """Bytes of all files of the table."""

    @abstractmethod
    def check(self) -> None:
        """Raise when the side does not do what it was set up for."""

    def round(self) -> dict[str, list[Any]]:
        """Time all steps; the summary after each change."""
        found: dict[str, list[Any]] = {}
        with Watch(self.pid) as watch:
            for name in STEPS:
                self._timed(name, self.step)
                if name in _CHECKED:
                    found[name] = self.summary()
                if name == "load":
                    self.figures["bytes after the load"].append(self.size() / 2**20)
        self.check()
        self.figures["bytes of all files at the end"].append(self.size() / 2**20)
        self.figures["peak memory, Python"].append(watch.python / 2**20)
        self.figures["peak memory, JVM"].append(watch.peaks["jvm"] / 2**20)
        for name in STEPS:
            self._timed(name, self.plain_step, "plain ")
            if name in _CHECKED and (plain := self.plain_summary()) != found[name]:
                raise AssertionError(f"{self.name}: count and sums are {found[name]}, in plain Parquet {plain}.")
        return found

    def _timed(self, name: str, run: Any, prefix: str = "") -> None:
        os.sync()
        start = time.perf_counter()
        run(name.partition(" ")[0])
        self.figures[prefix + name].append(time.perf_counter() - start)


class _Moulin(_Side):
    """A keyed table: loaded and upserted by DataFrames, changed by SQL."""

    def __init__(self, bench: Bench, events: Path, changed: Path) -> None:
        super().__init__("Moulin", events, changed)
        self._lake, self._spark, self._round = bench.lake(), bench.spark(), 0
        self._plain = Plain(self._spark, bench.folder / "plain", FEW)
        self._spark.read.parquet(str(changed)).createOrReplaceTempView("changed_rows")
        self._table: Any = None

    def step(self, name: str) -> None:
        if name == "load":
            self._make()
            self._table.append(self._spark.read.parquet(str(self._events)))
        elif name == "upsert":
            self._table.append(self._spark.table("changed_rows"))
        elif name == "compact":
            self._table.compact(everything=True)
        elif name == "aggregate":
            self._sql(AGGREGATE).collect()
        else:
            self._sql({"delete": DELETE, "update": UPDATE}[name])

    def plain_step(self, name: str) -> None:
        if name == "load":
            self._plain.load(str(self._events))
        else:
            self._plain.step(name)

    def summary(self) -> list[Any]:
        return list(self._sql(SUMMARY).first())

    def plain_summary(self) -> list[Any]:
        return self._plain.summary()

    def size(self) -> int:
        return folder_size(Path(self._lake.store.local_path(f"tables/{self._table.id}/data")).parent)

    def check(self) -> None:
        """Nothing is set up but the key."""

    def _make(self) -> None:
        """A new table for each round, as the peers have."""
        if self._table is not None:
            self._lake.drop_table(self._table.name)
        self._round += 1
        schema = pa.schema([field.with_nullable(field.name != "id") for field in events.SCHEMA])
        self._table = self._lake.create_table(f"bench.peers_{self._round}", schema, primary_key=["id"])

    def _sql(self, text: str) -> Any:
        return self._lake.sql(text.replace("{t}", self._table.name).replace("{few}", str(FEW)))


class _Other(_Side):
    """A peer in a process of its own."""

    def __init__(self, name: str, peer: Peer, events: Path, changed: Path) -> None:
        super().__init__(name, events, changed)
        self.peer, self.pid = peer, peer.pid

    def step(self, name: str) -> None:
        if name == "load":
            self.peer.ask("load", str(self._events), str(self._changed), str(FEW))
        else:
            self.peer.ask("step", name)

    def plain_step(self, name: str) -> None:
        if name == "load":
            self.peer.ask("plain_load", str(self._events), str(self._changed), str(FEW))
        else:
            self.peer.ask("plain_step", name)

    def summary(self) -> list[Any]:
        return self.peer.ask("summary")

    def plain_summary(self) -> list[Any]:
        return self.peer.ask("plain_summary")

    def size(self) -> int:
        return int(self.peer.ask("size")[0])

    def check(self) -> None:
        self.peer.ask("check")


def run(bench: Bench) -> Iterator[Line]:
    changed = _changed_rows(bench)
    others, reasons = _others(bench, changed)
    for name, reason in reasons.items():
        yield Line(NAME, f"{TITLE.partition(' /')[0]} / {name}", reason=reason)
    if not others:
        return
    sides: list[_Side] = [_Moulin(bench, bench.events(), changed), *others]
    for number in range(bench.runs):
        found = {}
        for side in sides:
            bench.step(f"round {number + 1} of {bench.runs}: {side.name}")
            found[side.name] = side.round()
        for side in others:
            if found[side.name] != found["Moulin"]:
                raise AssertionError(f"{side.name} has {found[side.name]}, Moulin {found['Moulin']}.")
    for side in others:
        yield from _lines(sides[0], side)


def _lines(ours: _Side, theirs: _Side) -> Iterator[Line]:
    name = theirs.name.partition(" ")[0]
    for step in STEPS:
        mine, other = ours.figures[step], theirs.figures[step]
        target = TARGETS.get((step, name))
        yield Line(NAME, f"{step} / {theirs.name}", Sample(tuple(mine)), Sample(tuple(other)), name, target)
        yield Line(
            NAME,
            f"{step} / {theirs.name}, each divided by plain Parquet on its Spark",
            _divided(mine, ours.figures[f"plain {step}"]),
            _divided(other, theirs.figures[f"plain {step}"]),
            name,
            unit="x plain",
        )
    for figure in (
        "bytes after the load", "bytes of all files at the end", "peak memory, Python", "peak memory, JVM"
    ):  # fmt: skip
        mine, other = ours.figures[figure], theirs.figures[figure]
        yield Line(
            NAME, f"{figure} / {theirs.name}", Sample(tuple(mine)), Sample(tuple(other)), name, unit=_MIB
        )  # fmt: skip


def _divided(figures: list[float], plain: list[float]) -> Sample:
    return Sample(tuple(one / other for one, other in zip(figures, plain, strict=True)))


def _others(bench: Bench, changed: Path) -> tuple[list[_Other], dict[str, str]]:
    """The peers that can be had, and why the others cannot."""
    if not bench.peers:
        return [], dict.fromkeys(RELEASES, "left out: --no-peers")
    found: list[_Other] = []
    reasons: dict[str, str] = {}
    memory = bench.spark().conf.get("spark.driver.memory", "1g") or "1g"
    fetched = (bench.fetched or bench.folder / "fetched").absolute()
    for name in RELEASES:
        if bench.wants_peer(name):
            bench.step(f"fetching and starting {name}")
            try:
                folder = bench.folder / "formats" / name
                peer = bench.shared(
                    f"peers {name}", lambda name=name, folder=folder: Peer(name, fetched, folder, memory)
                )
            except Unreachable as error:
                reasons[name] = f"no {name}: {error}"
            else:
                title = f"{name} {peer.release.version} on Spark {peer.release.spark}"
                found.append(_Other(title, peer, bench.events(), changed))
    return found, reasons


def _changed_rows(bench: Bench) -> Path:
    """Rows to upsert: random ids, half of them in the table, in no order."""
    random = np.random.default_rng(7)
    half = min(_UPSERTED, bench.rows // 5) // 2
    old, new = random.choice(bench.rows, half, replace=False), bench.rows + random.permutation(half)
    ids = random.permutation(np.concatenate([old, new]))
    path = bench.folder / "upserted_rows.parquet"
    pq.write_table(events.make(len(ids), seed=99).set_column(0, "id", pa.array(ids)), path)
    return path
