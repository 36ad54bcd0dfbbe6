r"""The backslash commands of the shell."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from moulin.cli.output import say, show_rows
from moulin.errors import InvalidInput, NotFound
from moulin.model.names import did_you_mean, full_name, parse_table_name

if TYPE_CHECKING:
    from moulin.lake import Lake
    from moulin.statement_text import Dialect


class Quit(Exception):
    """Raised to leave the shell."""


class Shell(Protocol):
    """The state that commands read and set; implemented in `moulin.cli.shell.session`."""

    lake: Lake
    timing: bool
    format: str
    limit: int | None
    output: str | None
    history: Callable[[], list[str]]

    @property
    def dialect(self) -> Dialect: ...
    def use_engine(self, name: str) -> None: ...
    def use_format(self, name: str) -> None: ...
    def run_file(self, name: str) -> None: ...


class Command(NamedTuple):
    """`act` gets the session and the words after the command; `usage` describes them."""

    usage: str
    help: str
    act: Callable[[Shell, list[str]], None]
    most: int = 0


def run(session: Shell, line: str) -> None:
    """Run a backslash command; InvalidInput if it is unknown."""
    try:
        name, *words = shlex.split(line.rstrip("; \t").replace("\\", "\\\\", 1))
    except ValueError:
        raise InvalidInput(f"Unclosed quote in {line}.") from None
    command = COMMANDS.get(name)
    if command is None:
        raise InvalidInput(f"Unknown command {name}.{did_you_mean(name, list(COMMANDS))} \\? lists all.")
    if len(words) > command.most:
        raise InvalidInput(f"Usage: {name} {command.usage}".rstrip() + ".")
    command.act(session, words)


def _databases(session: Shell, words: list[str]) -> None:
    found = session.lake.databases()
    show_rows(({"database": one.name} for one in found), False, empty="No databases.")


def _describe(session: Shell, words: list[str]) -> None:
    if words and "." in words[0]:
        show_rows(_columns(session, words[0]), False)
        return
    names = words or [database.name for database in session.lake.databases()]
    rows = [row for name in names for row in (*_tables(session, name), *_views(session, name))]
    show_rows(rows, False, empty="No tables.")


def _only_views(session: Shell, words: list[str]) -> None:
    rows = [row for database in session.lake.databases() for row in _views(session, database.name)]
    show_rows(rows, False, empty="No views.")


def _tables(session: Shell, database: str) -> Iterator[dict[str, Any]]:
    for table in session.lake.tables(database):
        yield {"name": full_name(database, table.name), "kind": "table", "rows": table.rows, "segments": table.segments}


def _views(session: Shell, database: str) -> Iterator[dict[str, Any]]:
    for view in session.lake.views(database):
        of = ", ".join(member.name for member in view.members)
        yield {"name": full_name(database, view.name), "kind": f"view of {of}", "rows": None, "segments": None}


def _columns(session: Shell, name: str) -> Iterator[dict[str, Any]]:
    catalog = session.lake.catalog
    try:
        state = catalog.table(*parse_table_name(name))
    except NotFound:
        for member in catalog.view(*parse_table_name(name)).members:
            yield {"table": member.name}
        return
    key = set(state.schema.identifier_field_ids)
    for field in state.schema.fields:
        yield {
            "column": field.name,
            "type": str(field.field_type),
            "null": not field.required,
            "key": field.field_id in key,
            "comment": field.doc,
        }


def _timing(session: Shell, words: list[str]) -> None:
    if words and words[0] not in ("on", "off"):
        raise InvalidInput("Usage: \\timing on or \\timing off.")
    session.timing = words[0] == "on" if words else not session.timing
    say(f"Timing is {'on' if session.timing else 'off'}.")


def _format(session: Shell, words: list[str]) -> None:
    if words:
        session.use_format(words[0])
    say(f"Output format is {session.format}.")


def _engine(session: Shell, words: list[str]) -> None:
    if words:
        session.use_engine(words[0])
    say(f"Engine is {session.dialect}.")


def _limit(session: Shell, words: list[str]) -> None:
    if words:
        if not words[0].isdecimal():
            raise InvalidInput("Usage: \\limit ROWS; 0 shows all.")
        session.limit = int(words[0])
    shown = "the usual number of" if session.limit is None else f"{session.limit:,}" if session.limit else "all"
    say(f"Statements show {shown} rows.")


def _output(session: Shell, words: list[str]) -> None:
    session.output = words[0] if words else None
    if session.output is None:
        say("Rows are printed on the screen.")
    else:
        say(f"The rows of the next statement are written to {session.output}, as {session.format}.")


def _history(session: Shell, words: list[str]) -> None:
    for text in session.history():
        say(text)


def _include(session: Shell, words: list[str]) -> None:
    if not words:
        raise InvalidInput("Usage: \\i FILE.")
    session.run_file(words[0])


def _help(session: Shell, words: list[str]) -> None:
    width = max(len(f"{name} {command.usage}") for name, command in COMMANDS.items())
    for name, command in COMMANDS.items():
        say(f"{f'{name} {command.usage}'.ljust(width)}  {command.help}")
    say("A statement ends with ; and may have several lines. Ctrl-C cancels it, Ctrl-D exits.")


def _quit(session: Shell, words: list[str]) -> None:
    raise Quit


COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        "\\l": Command("", "List the databases.", _databases),
        "\\d": Command("[DATABASE | TABLE]", "List tables and views, or the columns of a table.", _describe, 1),
        "\\dv": Command("", "List the views.", _only_views),
        "\\engine": Command("[spark | duckdb]", "Set the engine.", _engine, 1),
        "\\format": Command("[table | json | csv | parquet | arrow]", "Set the output format.", _format, 1),
        "\\limit": Command("[ROWS]", "Set how many rows are shown; 0 for all.", _limit, 1),
        "\\o": Command("[FILE]", "Write the rows of the next statement to a file.", _output, 1),
        "\\timing": Command("[on | off]", "Show the time of each statement.", _timing, 1),
        "\\i": Command("FILE", "Run the statements and commands of a file.", _include, 1),
        "\\history": Command("", "Show the history.", _history),
        "\\?": Command("", "Show this.", _help),
        "\\q": Command("", "Leave.", _quit),
    }
)

__all__ = ["COMMANDS", "Command", "Quit", "Shell", "run"]
