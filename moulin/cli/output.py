"""What commands print: Rich tables for people, one JSON document for scripts (`documents`).

Text is made printable (`moulin.printable`) on its way out, wherever it goes; JSON says the same values by its own
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
    """A console that prints no control character of what it is given, and wraps lines at terminals only."""

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
        """Whether a person reads this now; unlike `is_terminal`, which FORCE_COLOR turns on for pipes."""
        try:
            return self.file.isatty()
        except ValueError:  # closed
            return False


console = Screen(highlight=False, emoji=False)
errors = Screen(stderr=True, highlight=False, emoji=False)


def show_rows(
    rows: Iterable[Mapping[str, Any]], as_json: bool, *, title: str | None = None, empty: str = "", data: bool = False
) -> None:
    """Rows as a table, or as a JSON document with a row per line. They are taken and printed by and by.

    `data`: they are rows of somebody's table, whose column names are shown as they are.
    """
    if as_json:
        write_rows(rows)
        return
    left, found = iter(rows), False
    while page := list(islice(left, _PAGE)):
        _show_page(page, None if found else title, data)
        found = True
    if not found:
        console.print(printable(empty) or "Nothing to show.", markup=False)


COUNTED_ROWS: Final = 1_000
"""So many rows beyond those that are shown a command reads, to say how many there are."""


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
    """The first rows, and to people how many there are beyond; `total` when it is known.

    Without it, up to `COUNTED_ROWS` of those that `rows` has beyond are counted. Without a limit, all are shown.
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
    """Rows below one another, a line per value: for tables that are wider than the terminal."""
    if title:
        console.print(printable(title), style="italic", markup=False)
    for number, row in enumerate(cells):
        if number:
            console.print()
        _show_lines(dict(zip(names.values(), row, strict=True)))
    console.print(f"{len(names)} columns are too wide for this terminal, so each value has a line.", style="dim")


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
    """A sentence for people; with `as_json`, the values alone."""
    if as_json:
        write_document(values)
    else:
        console.print(printable(text, keep="\n"), markup=False)


def say_dropped(kind: str, command: str, name: str, tombstone: Tombstone | None, as_json: bool) -> None:
    """What can be brought back, and until when; without a tombstone, it is gone."""
    until = moment(tombstone.delete_at) if tombstone else None
    back = f"; `moulin {command} resurrect {name}` works until {shown(until)}." if until else ", for good."
    say(f"{kind} {name} is dropped{back}", as_json, name=name, until=until)


def report(event: str, text: str, as_json: bool, **values: Any) -> None:
    """What just happened in a process that goes on: a sentence, or a document on a line of its own."""
    if as_json:
        write_event({"event": event, **values})
    else:
        say(text)


def complain(sentence: str) -> None:
    """An error, on standard error. Brackets in it are its own: `[serve]` is no markup."""
    errors.print(f"[red]Error:[/red] {escape(printable(sentence))}", soft_wrap=True)


def warn(sentence: str) -> None:
    """A warning, on standard error; the command goes on."""
    errors.print(f"[yellow]Warning:[/yellow] {escape(printable(sentence))}", soft_wrap=True)


def print_logs() -> None:
    """Have warnings of libraries and of Moulin itself printed as other text is, where nothing else takes them."""
    import logging

    class Printable(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return printable(super().format(record), keep="\n")

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Printable())
