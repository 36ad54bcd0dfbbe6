"""The meta server under load: unary reads against the same calls in-process, and many clients at once.

`python -m benchmarks.meta_load --seconds 60` runs the load alone, for longer. Every client is a connection of its own,
sixteen to a process. Three calls of four only look; the fourth counts a property up, from what it read, and tries again
when another was faster. In the end no call may have failed, and the counts must add up to what was acknowledged.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import moulin
from benchmarks import big_catalog
from benchmarks.harness import Bench, Contender, Line, Sample, Skipped, take_turns
from benchmarks.postgres import OwnPostgres, Postgres
from moulin.catalog.commit.table_commit import TableCommit
from moulin.errors import Conflict, MoulinError
from moulin.lake import Lake
from moulin.meta.config import ServeConfig
from moulin.meta.server.server import build_server
from moulin.model.operations import SetProperties

TITLE = "the meta server: reads through gRPC / in-process, and 64 clients at once"
_CLIENTS, _PER_PROCESS, _SECONDS = 64, 16, 10.0
_READS = 500
_COUNTERS = 8
_QUIET = ServeConfig(bind="127.0.0.1:0", http_bind="", log_level="error")


def run(bench: Bench) -> Iterator[Line]:
    for backend in big_catalog.BACKENDS:
        try:
            lake = _lake(bench, backend)
        except Skipped as skipped:
            yield Line("meta_load", f"{backend}: reads and load", reason=str(skipped))
            continue
        bench.step(f"{backend}: unary reads")
        yield _reads(lake, backend, bench.runs)
        bench.step(f"{backend}: {_CLIENTS} clients for {_SECONDS:.0f} s")
        load = run_load(lake, _SECONDS)
        load.require_sound()
        yield Line("meta_load", f"{backend}: {load}", Sample((load.seconds,)))


def _lake(bench: Bench, backend: str) -> Lake:
    folder = bench.folder / f"meta-{backend}"
    if backend == "sqlite":
        lake = moulin.connect(folder)
    else:
        server: Postgres = bench.shared("postgresql", OwnPostgres)
        lake = moulin.connect(server.create_database("meta_load"), storage=str(folder))
    bench.shared(f"meta lake {backend}", lambda: lake)
    lake.create_database("load", if_not_exists=True)
    lake.create_table("load.t", [("id", "long")], if_not_exists=True)
    return lake


def _reads(lake: Lake, backend: str, runs: int) -> Line:
    """The last version of a table, asked for again and again by one client."""
    table_id = lake.table("load.t").id
    server = build_server(lake, _QUIET).start()
    with moulin.connect(f"grpc://{server.address}") as remote:

        def ask(catalog: Any) -> None:
            for _ in range(_READS):
                catalog.head_version(table_id)

        sides = {"": Contender(lambda: ask(remote.catalog)), "here": Contender(lambda: ask(lake.catalog))}
        samples = take_turns(sides, runs)
    server.stop(1)
    through, here = (_READS / samples[name].median for name in ("", "here"))
    case = f"{backend}: {through:,.0f} reads/s through gRPC, {here:,.0f} in-process"
    return Line("meta_load", case, samples[""], samples["here"], "in-process")


@dataclass(frozen=True, slots=True)
class Load:
    """What all clients did together."""

    seconds: float
    reads: int
    commits: int
    retries: int
    counted: int
    errors: tuple[str, ...]

    def require_sound(self) -> None:
        if self.errors:
            raise AssertionError(f"{len(self.errors)} calls failed, such as: {self.errors[0]}")
        if self.counted != self.commits:
            raise AssertionError(f"{self.commits} updates were acknowledged, and {self.counted} are there.")

    def __str__(self) -> str:
        return (
            f"{_CLIENTS} clients, {self.reads / self.seconds:,.0f} reads/s and {self.commits / self.seconds:,.0f} "
            f"commits/s ({self.retries:,} lost races), {len(self.errors)} errors, "
            f"{self.commits - self.counted} updates lost"
        )


def run_load(lake: Lake, seconds: float) -> Load:
    """Serve `lake` from this process and let all clients loose on it."""
    table_id = lake.table("load.t").id
    before = _count(lake, table_id)
    server = build_server(lake, _QUIET).start()
    command = [sys.executable, "-m", "benchmarks.meta_load", "--worker", f"grpc://{server.address}"]
    started = time.monotonic()
    workers = [
        subprocess.Popen(
            [*command, "--table", str(table_id), "--seconds", str(seconds), "--first", str(first)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        for first in range(0, _CLIENTS, _PER_PROCESS)
    ]
    told = [json.loads(worker.communicate()[0] or '{"errors": ["a worker died"]}') for worker in workers]
    taken = max((one.get("seconds", 0.0) for one in told), default=0.0) or time.monotonic() - started
    server.stop(5)
    return Load(
        taken,
        sum(one.get("reads", 0) for one in told),
        sum(one.get("commits", 0) for one in told),
        sum(one.get("retries", 0) for one in told),
        _count(lake, table_id) - before,
        tuple(error for one in told for error in one["errors"]),
    )


def _count(lake: Lake, table_id: UUID) -> int:
    return sum(int(value) for key, value in lake.catalog.table_by_id(table_id).properties.items() if key[0] == "n")


class Client(threading.Thread):
    """One client; it stops at `end`."""

    def __init__(self, uri: str, table_id: UUID, number: int, end: float) -> None:
        super().__init__(daemon=True)
        self._uri, self._table_id, self._key, self._end = uri, table_id, f"n{number % _COUNTERS}", end
        self.reads = self.commits = self.retries = 0
        self.errors: list[str] = []

    def run(self) -> None:
        try:
            with moulin.connect(self._uri) as lake:
                while time.monotonic() < self._end:
                    for _ in range(3):
                        lake.catalog.head_version(self._table_id)
                        self.reads += 1
                    self._count_up(lake)
        except MoulinError as error:
            self.errors.append(f"{type(error).__name__}: {error.message}")

    def _count_up(self, lake: Lake) -> None:
        while time.monotonic() < self._end:
            state = lake.catalog.table_by_id(self._table_id)
            self.reads += 1
            value = str(int(state.properties.get(self._key, "0")) + 1)
            try:
                lake.catalog.commit([TableCommit(self._table_id, state.version, SetProperties({self._key: value}))])
            except Conflict:
                self.retries += 1
                continue
            self.commits += 1
            return


def work(uri: str, table_id: UUID, seconds: float, first: int) -> dict[str, Any]:
    """The clients of one process."""
    begun = time.monotonic()
    clients = [Client(uri, table_id, first + n, begun + seconds) for n in range(_PER_PROCESS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    sums = {name: sum(getattr(client, name) for client in clients) for name in ("reads", "commits", "retries")}
    return {**sums, "seconds": time.monotonic() - begun, "errors": [e for client in clients for e in client.errors]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--backend", choices=big_catalog.BACKENDS, action="append", help="may be repeated; by default all"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--table", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(work(options.worker, UUID(options.table), options.seconds, options.first)))
        return
    with TemporaryDirectory(prefix="moulin-load-", ignore_cleanup_errors=True) as folder:
        bench = Bench(Path(folder))
        try:
            for backend in options.backend or big_catalog.BACKENDS:
                load = run_load(_lake(bench, backend), options.seconds)
                print(f"{backend}: {load}")
                load.require_sound()
        finally:
            bench.close()


if __name__ == "__main__":
    main()
