"""How `moulin table show` prints the structure of a table: levels as bars, regions, indexes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.bar import Bar
from rich.table import Table as RichTable

from moulin.cli.output import console, show_rows
from moulin.cli.tables.index import describe
from moulin.cli.values import size
from moulin.table.stats import TableStats

_WIDTH = 24


def as_values(stats: TableStats) -> dict[str, Any]:
    """The statistics for scripts."""
    return {
        "levels": [asdict(level) for level in stats.levels],
        "write_amplification": stats.write_amplification,
        "read_amplification": stats.read_amplification,
        "key_index": asdict(stats.key_index),
        "row_cache": asdict(stats.row_cache),
        "stalls": asdict(stats.stalls),
        "memtable_bytes": stats.memtable_bytes,
        "log_position": stats.log_position,
        "regions": [asdict(region) for region in stats.regions],
        "indexes": [describe(index) for index in stats.indexes],
    }


def draw(stats: TableStats) -> None:
    """The levels by size, and regions and indexes if there are any."""
    if stats.levels:
        table = RichTable(title="Levels", title_justify="left", header_style="bold")
        for name in ("level", "files", "size", "live rows", "deleted"):
            table.add_column(name, justify="right")
        table.add_column("share", min_width=_WIDTH)
        largest = max(level.bytes for level in stats.levels)
        for level in stats.levels:
            numbers = (str(level.level), f"{level.files:,}", size(level.bytes), f"{level.live:,}", f"{level.deleted:,}")
            table.add_row(*numbers, Bar(largest, 0, level.bytes, width=_WIDTH, color="cyan"))
        console.print(table)
    if stats.regions:
        rows = [
            {
                "region": region.number,
                "epoch": region.epoch,
                "owner": region.owner or "nobody",
                "log_covered_to": region.covered,
                "generation": region.generation,
                "files": region.files,
            }
            for region in stats.regions
        ]
        show_rows(rows, False, title="Regions")
    if stats.indexes:
        show_rows([describe(index) for index in stats.indexes], False, title="Indexes")
