"""What starting costs, in CPU seconds (user and system): help, opening a lake, one row by its key.

Beside them stand `python -c pass`, and DuckDB: its own command line where it is installed, else its Python package.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.harness import Bench, Line, Sample

TITLE = "CPU seconds of a start; / of python -c pass; / of DuckDB's"
_RUNS = 20
_BARE = [sys.executable, "-c", "pass"]
_MOULIN = [sys.executable, "-m", "moulin.cli.main"]
_OPEN = "import sys, moulin; moulin.connect(sys.argv[1])"
# CPU seconds that each may take.
_AIMS = {"moulin --help": 0.3, "moulin.connect(folder)": 0.4, "moulin get": 0.6}


def run(bench: Bench) -> Iterator[Line]:
    folder = bench.folder / "cli_start"
    _make_lake(folder)
    commands = {
        "moulin --help": [*_MOULIN, "--help"],
        "moulin.connect(folder)": [sys.executable, "-c", _OPEN, str(folder)],
        "moulin get": [*_MOULIN, "--lake", str(folder), "get", "shop.t", "1"],
    }
    duckdb, words = _duckdb()
    samples = _in_turns(bench, {**commands, "python -c pass": _BARE, duckdb: words})
    for case in commands:
        yield Line("cli_start", f"{case}, CPU", samples[case], target=_AIMS[case])
        for peer in ("python -c pass", duckdb):
            yield Line("cli_start", f"{case}, CPU", samples[case], samples[peer], peer)


def _duckdb() -> tuple[str, list[str]]:
    found = shutil.which("duckdb")
    if found is not None:
        return "duckdb -c 'select 1'", [found, "-c", "select 1"]
    return "import duckdb; connect()", [sys.executable, "-c", "import duckdb; duckdb.connect()"]


def _make_lake(folder: Path) -> None:
    import moulin

    with moulin.connect(folder) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", [("id", "long"), ("name", "string")], primary_key=["id"])
        table.put({"id": 1, "name": "a"})


def _in_turns(bench: Bench, commands: dict[str, list[str]]) -> dict[str, Sample]:
    """Samples of the commands in turns, so that the machine's moods strike all alike, after a warm-up."""
    figures: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(_RUNS + 1):
        bench.step(f"starting: turn {turn} of {_RUNS}")
        for name, words in commands.items():
            spent = _cpu_seconds(words)
            if turn:
                figures[name].append(spent)
    return {name: Sample(tuple(found)) for name, found in figures.items()}


def _cpu_seconds(words: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
