"""`python -m benchmarks.against TREE`: this tree beside another one, such as a checkout of the commit before.

Each run is a process of its own, and runs of the two trees alternate, so that both see the same machine. The work uses
the public API alone. Printed are the CPU seconds of each step, the median over the runs, and their ratio.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from moulin import Lake

HERE = Path(__file__).parents[1]
COLUMNS = [("id", "long"), ("user", "long"), ("amount", "double"), ("text", "string")]
ROWS = 1_000_000


def work(folder: str) -> dict[str, float]:
    """The CPU seconds of each step, with the Moulin that this process imports."""
    import moulin

    spent: dict[str, float] = {}

    def step(name: str, call: Callable[[], object], times: int = 1) -> None:
        gc.collect()  # or a full collection lands in one step here and in another one there
        gc.disable()
        began = time.process_time()
        for _ in range(times):
            call()
        spent[name] = time.process_time() - began
        gc.enable()

    data = _data()
    few = data.slice(0, 100)
    rows = data.slice(0, 3_000).to_pylist()
    keys = range(0, 300_000, 100)
    with tempfile.TemporaryDirectory(dir=folder) as home, moulin.connect(Path(home) / "lake") as lake:
        lake.create_database("b")
        _warm_up(lake, data.slice(0, 1_000))
        events = lake.create_table("b.events", COLUMNS)
        step("3 appends of 1M rows", lambda: events.append(data), 3)
        step("300 appends of 100 rows", lambda: events.append(few), 300)
        step("10 scans of all", lambda: events.scan().to_arrow(), 10)
        step("10 filtered scans", lambda: events.scan(["id", "amount"], where="user < 500").to_arrow(), 10)
        step("100 counts of one id", lambda: events.scan(where="id = 777").count(), 100)
        step("delete_where", lambda: events.delete_where("user < 2500"))
        step("10 scans after the delete", lambda: events.scan().to_arrow(), 10)
        step("compact", lambda: events.compact(everything=True))
        keyed = lake.create_table("b.keyed", COLUMNS, primary_key=["id"])
        step("put_batch of 1M rows", lambda: keyed.put_batch(data))
        step("flush", keyed.flush)
        step("3,000 gets, first", lambda: [keyed.get(key) for key in keys])
        step("3,000 gets, again", lambda: [keyed.get(key) for key in keys])
        step("100 get_many of 1,000", lambda: keyed.get_many(list(range(5, ROWS, 1_000))), 100)
        step("scan in key order", lambda: keyed.scan(ordered=True).to_arrow())
        small = lake.create_table("b.small", COLUMNS, primary_key=["id"])
        step("3,000 puts", lambda: [small.put(row) for row in rows])
    return spent


def _warm_up(lake: Lake, data: pa.Table) -> None:
    """Load what is loaded late; `cli_start` measures that."""
    events = lake.create_table("b.warm", COLUMNS)
    events.append(data)
    events.delete_where("user < 2500")
    events.scan(where="id = 777").count()
    events.compact(everything=True)
    keyed = lake.create_table("b.warm_keyed", COLUMNS, primary_key=["id"])
    keyed.put_batch(data)
    keyed.put(data.slice(0, 1).to_pylist()[0])
    keyed.flush()
    keyed.get_many([1, 2])
    keyed.scan(ordered=True).to_arrow()


def _data() -> pa.Table:
    random = np.random.default_rng(7)
    texts = pa.array(random.integers(0, 1_000, ROWS)).cast(pa.string())
    users, amounts = random.integers(0, 50_000, ROWS), random.random(ROWS)
    return pa.table({"id": np.arange(ROWS), "user": users, "amount": amounts, "text": texts})


def one_run(tree: Path, folder: str) -> dict[str, float]:
    """The work in a new process that imports the Moulin of `tree`."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, str(Path(__file__).resolve()), "--work", str(tree), "--folder", folder]
    done = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path, help="the root of the other tree")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where the lakes are made")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(json.dumps(work(options.folder)))
        return
    found: dict[Path, list[dict[str, float]]] = {HERE: [], options.tree.resolve(): []}
    for number in range(1, options.runs + 1):
        for tree, runs in found.items():
            runs.append(one_run(tree, options.folder))
        print(f"run {number} of {options.runs}", file=sys.stderr)
    here, there = found.values()
    print(f"{'CPU seconds':28}{'this tree':>12}{'the other':>12}{'ratio':>8}")
    for name in here[0]:
        one, other = (statistics.median(run[name] for run in runs) for runs in (here, there))
        print(f"{name:28}{one:12.3f}{other:12.3f}{one / other:8.2f}")


if __name__ == "__main__":
    main()
