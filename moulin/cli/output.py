"""Output of commands: Rich tables for people, one JSON document for scripts (`documents`).

All text is made printable (`moulin.printable`) before it is written; JSON represents the same values with its own
escapes. Text is wrapped at terminals only.
"""

# Decisions: docs/decisions/0242, docs/decisions/0243

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from moulin.cli.documents import ReaderGone, write_document, write_event, write_rows
from moulin.cli.values import moment, shown, words
from moulin.printable import printable

if TYPE_CHECKING:
    from moulin.model.entities import Tombstone

_UNWRAPPED = 1_000_000
_PAGE = 1_000  # rows of one table on the screen: a longer list is several tables, so that it needs no memory
_NARROWEST = 10  # a column that is folded keeps this width, or its name's


class Screen(Console):
    """A console that never prints control characters, and wraps lines only on terminals."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text, keep="\n"))

    def on_broken_pipe(self) -> None:
        raise ReaderGone

    @property
    def size(self) -> ConsoleDimensions:
        found = super().size
        return found if self.at_terminal else ConsoleDimensions(_UNWRAPPED, found.height)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

    @property
    def at_terminal(self) -> bool:
        """Whether the output is a terminal; unlike `is_terminal`, not affected by FORCE_COLOR."""
        try:
            return self.file.isatty()
        except ValueError:  # closed
            return False


console = Screen(highlight=False, emoji=False)
errors = Screen(stderr=True, highlight=False, emoji=False)


def show_rows(
    rows: Iterable[Mapping[str, Any]], as_json: bool, *, title: str | None = None, empty: str = "", data: bool = False
) -> None:
    """Print rows as a table, or as a JSON document with a row per line. Rows are read and printed incrementally.

    `data`: the rows are user data, whose column names are shown unchanged.
    """
    if as_json:
        write_rows(rows)
        return
    left, found = iter(rows), False
    while page := list(islice(left, _PAGE)):
        _show_page(page, None if found else title, data)
        found = True
    if not found:
        console.print(printable(empty) or "No rows.", markup=False)


COUNTED_ROWS: Final = 1_000
"""The number of further rows that a command counts."""


def show_limited(
    rows: Iterable[Mapping[str, Any]],
    as_json: bool,
    limit: int | None,
    *,
    total: int | None = None,
    empty: str = "",
    advice: str = "--limit 0 shows all",
    data: bool = False,
) -> None:
    """The first rows, and for people the number of further rows; `total` if it is known.

    Without it, up to `COUNTED_ROWS` further rows are counted. Without a limit, all are shown.
    """
    if limit is None:
        show_rows(rows, as_json, empty=empty, data=data)
        return
    left = iter(rows)
    show_rows(islice(left, limit), as_json, empty=empty, data=data)
    if as_json or next(left, None) is None:
        return
    beyond = 1 + sum(1 for _ in islice(left, COUNTED_ROWS - 1)) if total is None else total - limit
    more = "or more" if total is None and beyond == COUNTED_ROWS else "more"
    console.print(f"The first {limit:,} rows; {beyond:,} {more} not shown, {advice}.", style="dim", markup=False)


def _show_page(rows: Sequence[Mapping[str, Any]], title: str | None, data: bool) -> None:
    from rich.cells import cell_len
    from rich.table import Table as RichTable

    names = {name: printable(name if data else words(name)) for name in rows[0]}
    cells = [[printable(shown(value, data=data)) for value in row.values()] for row in rows]
    least = 1
    for number, name in enumerate(names.values()):
        widest = max(cell_len(row[number]) for row in cells)
        least += 3 + max(cell_len(name), min(widest, _NARROWEST))
    if least > console.width:
        _show_records(names, cells, title)
        return
    table = RichTable(title=title and escape(printable(title)), title_justify="left", header_style="bold")
    for name, header in names.items():
        numeric = all(isinstance(row[name], int | float | None) for row in rows)
        table.add_column(escape(header), justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(escape, row))
    console.print(table)


def _show_records(names: Mapping[str, str], cells: Sequence[Sequence[str]], title: str | None) -> None:
    """Rows with one line per value: for tables that are wider than the terminal."""
    if title:
        console.print(printable(title), style="italic", markup=False)
    for number, row in enumerate(cells):
        if number:
            console.print()
        _show_lines(dict(zip(names.values(), row, strict=True)))
    console.print(f"{len(names)} columns do not fit on this terminal, so each value has its own line.", style="dim")


def show_values(values: Mapping[str, Any], as_json: bool, *, data: bool = False) -> None:
    """One thing: a line per value, or a document. `data` as in `show_rows`."""
    if as_json:
        write_document(values)
        return
    _show_lines(
        {printable(name if data else words(name)): printable(shown(one, data=data)) for name, one in values.items()}
    )


def _show_lines(values: Mapping[str, str]) -> None:
    width = max(map(len, values))
    for name, value in values.items():
        console.print(f"[bold]{escape(name.ljust(width))}[/bold]  {escape(value)}")


def say(text: str, as_json: bool = False, **values: Any) -> None:
    """A sentence for people; with `as_json`, only the values."""
    if as_json:
        write_document(values)
    else:
        console.print(printable(text, keep="\n"), markup=False)


def say_dropped(kind: str, command: str, name: str, tombstone: Tombstone | None, as_json: bool) -> None:
    """Report a drop, and until when it can be undone; without a tombstone, it is final."""
    until = moment(tombstone.delete_at) if tombstone else None
    back = f"; `moulin {command} resurrect {name}` works until {shown(until)}." if until else " permanently."
    say(f"Dropped {kind} {name}{back}", as_json, name=name, until=until)


def report(event: str, text: str, as_json: bool, **values: Any) -> None:
    """An event of a running process: a sentence, or a document on one line."""
    if as_json:
        write_event({"event": event, **values})
    else:
        say(text)


def complain(sentence: str) -> None:
    """Print an error on standard error. Brackets in it, as in `[serve]`, are not markup."""
    errors.print(f"[red]Error:[/red] {escape(printable(sentence))}", soft_wrap=True)


def warn(sentence: str) -> None:
    """Print a warning on standard error."""
    errors.print(f"[yellow]Warning:[/yellow] {escape(printable(sentence))}", soft_wrap=True)


def print_logs() -> None:
    """Print warnings of libraries and of Moulin like other text."""
    import logging

    class Printable(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return printable(super().format(record), keep="\n")

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Printable())
