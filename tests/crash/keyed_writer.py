"""A process that writes a keyed table and tells, on a pipe, what was acknowledged; killed without warning.

One process imports everything once and forks a child for every run, since starting Python is what takes long. A
command on standard input is a lake, a seed and options as JSON, with tabs between. The pid of the child comes back
first, then a line for each write before it is tried ("try") and after it was acknowledged ("ok").
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time

import moulin.table.compact.kernel  # noqa: F401 - imported before the fork
from moulin.errors import MoulinError
from moulin.lake import Lake


def tell(verb: str, *values: object) -> None:
    os.write(1, (" ".join(map(str, (verb, *values))) + "\n").encode())


def write(address: str, seed: int, options: dict[str, str]) -> None:
    source = random.Random(seed)
    divides = options.pop("divides", "")  # whether the keys are divided otherwise, again and again
    lake = Lake.open(address, settings=options)
    table = lake.table("shop.t")
    threading.Thread(target=compact, args=(table, seed), daemon=True).start()
    for turn in range(1_000_000):
        mark = seed * 1_000_000 + turn
        key = source.randrange(60)
        kind = source.choice(["put", "put", "put", "delete", "divide" if divides else "batch", "flush", "append"])
        keys = sorted(source.sample(range(60), 5)) if kind in ("batch", "append") else [key]
        if kind == "flush":
            table.flush()
            continue
        if kind == "divide":
            table.set_regions(source.choice([[], ["bucket(3, id)"], ["bucket(7, id)"], ["truncate(20, id)"]]))
            continue
        tell("try", kind, mark, *keys)
        if kind == "delete":
            table.delete(key)
        elif kind == "put":
            table.put({"id": key, "mark": mark})
        elif kind == "batch":
            table.put_batch([{"id": key, "mark": mark} for key in keys])
        else:
            table.append([{"id": key, "mark": mark} for key in keys])
        tell("ok", mark)


def compact(table: object, seed: int) -> None:
    source = random.Random(seed)
    while True:
        time.sleep(source.uniform(0, 0.05))
        try:
            table.compact(everything=source.random() < 0.5)  # type: ignore[attr-defined]
        except MoulinError as error:
            tell("merge", type(error).__name__)


def main() -> None:
    for line in sys.stdin:
        address, seed, options = line.rstrip("\n").split("\t")
        child = os.fork()
        if child == 0:
            try:
                write(address, int(seed), json.loads(options))
            except BaseException as error:  # noqa: BLE001 - whatever it is, the test must hear of it
                tell("failed", repr(error))
                os._exit(1)
        tell("pid", child)
        os.waitpid(child, 0)
        tell("dead")


if __name__ == "__main__":
    main()
