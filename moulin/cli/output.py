"""What commands print: Rich tables for people, one JSON document for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from rich.progress import Progress

console = Console(highlight=False, emoji=False)
errors = Console(stderr=True, highlight=False, emoji=False)


def show_rows(rows: Sequence[Mapping[str, Any]], as_json: bool, *, title: str | None = None, empty: str = "") -> None:
    """Rows as a table, or as a JSON list. Values that are not text are made readable."""
    if as_json:
        show_json(list(rows))
        return
    if not rows:
        console.print(empty or "Nothing to show.")
        return
    from rich.table import Table as RichTable

    table = RichTable(title=title, title_justify="left", header_style="bold")
    for name in rows[0]:
        numeric = all(isinstance(row[name], int | float) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(shown(value)) for value in row.values()))
    console.print(table)


def show_values(values: Mapping[str, Any], as_json: bool) -> None:
    """One thing: a line per value, or a JSON object."""
    if as_json:
        show_json(values)
        return
    width = max(len(name) for name in values)
    for name, value in values.items():
        console.print(f"[bold]{name.ljust(width)}[/bold]  {escape(shown(value))}")


def show_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, default=str, indent=2, ensure_ascii=False) + "\n")


def say(text: str, as_json: bool = False, **values: Any) -> None:
    """A sentence for people; with `as_json`, the values alone."""
    if as_json:
        show_json(values)
    else:
        console.print(text, markup=False)


def complain(sentence: str) -> None:
    """An error, on standard error. Brackets in it are its own: `[serve]` is no markup."""
    errors.print(f"[red]Error:[/red] {escape(sentence)}", soft_wrap=True)


def warn(sentence: str) -> None:
    """A warning, on standard error; the command goes on."""
    errors.print(f"[yellow]Warning:[/yellow] {escape(sentence)}", soft_wrap=True)


def shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}={v}" for k, v in value.items())
    return str(value)


def size(count: int) -> str:
    """Bytes for people."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} TiB"


def moment(nanos: int | None) -> str | None:
    """A stored time as text, UTC."""
    if nanos is None:
        return None
    return datetime.fromtimestamp(nanos / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


@contextmanager
def progress(text: str, *, quiet: bool = False) -> Iterator[Progress]:
    """A progress bar on standard error, gone when done; nothing with `quiet` or when nobody watches."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=quiet or not errors.is_terminal) as bar:
        bar.add_task(text, total=None)
        yield bar
