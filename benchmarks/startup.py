"""How long Spark takes from nothing to its first answer, with the class-data cache and without."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence

from benchmarks.harness import Bench, Line, Skipped

TITLE = "Spark start with the class-data cache / without"
AIM = 0.5
_RUNS = 3
_PROGRAM = """
import sys
from moulin.pipeline.session import start_session
spark = start_session("local[2]", "start", {}, sys.argv[1:])
spark.range(1000).selectExpr("id % 7 as k", "id").groupBy("k").sum("id").collect()
"""


def run(bench: Bench) -> Iterator[Line]:
    try:
        from moulin.errors import FailedPrecondition
        from moulin.pipeline.java import class_cache_options, record_class_cache

        bench.step("recording the class-data cache, if there is none")
        record_class_cache()
    except (ImportError, FailedPrecondition) as error:
        raise Skipped(f"no Spark: {error}") from error
    options = class_cache_options()
    yield bench.compare(
        "startup",
        "session and first query",
        lambda: _start(options),
        {"without the cache": lambda: _start([])},
        target=AIM,
        runs=min(bench.runs, _RUNS),
    )


def _start(options: Sequence[str]) -> None:
    subprocess.run([sys.executable, "-c", _PROGRAM, *options], check=True, capture_output=True)
