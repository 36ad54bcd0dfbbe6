"""Tab completion: commands, SQL keywords, databases, tables, and the columns of tables in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from moulin.cli.query.engines import ENGINES
from moulin.cli.query.forms import FORMATS
from moulin.cli.shell.commands import COMMANDS
from moulin.cli.shell.script import COMMAND
from moulin.errors import MoulinError
from moulin.model.names import full_name
from moulin.printable import printable
from moulin.statement_text import KEYWORDS

if TYPE_CHECKING:
    from moulin.lake import Lake

_WORD = re.compile(r"[\w.\\?]*$")
_TABLE = re.compile(r"\b(\w+)\.(\w+)\b")
_CHOICES = {"\\engine": ENGINES, "\\format": FORMATS, "\\timing": ("on", "off")}


class LakeCompleter(Completer):
    """Names are read from the catalog, and read again when the lake has a new version."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._version = -1
        self._names: list[str] = []

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        found = _WORD.search(before)
        word = found[0] if found else ""
        try:
            for choice in self._choices(document.text, before, word):
                if choice.lower().startswith(word.lower()) and printable(choice) == choice:
                    yield Completion(choice, start_position=-len(word))
        except MoulinError:
            return  # unreadable names are not completed

    def _choices(self, text: str, before: str, word: str) -> Iterator[str]:
        if before.lstrip().startswith(COMMAND):
            command, space, _ = before.lstrip().partition(" ")
            yield from _CHOICES.get(command, self._known() if command == "\\d" else ()) if space else COMMANDS
            return
        names = self._known()
        if "." not in word:
            columns = dict.fromkeys(self._columns(text, names))
            yield from columns
            yield from (name for name in names if "." not in name)
            yield from KEYWORDS
        else:
            yield from (name for name in names if "." in name)

    def _known(self) -> list[str]:
        """Databases, and tables and views with their database."""
        version = self._lake.version
        if version != self._version:
            names = []
            for database in self._lake.databases():
                tables = [table.name for table in self._lake.tables(database.name)]
                views = [view.name for view in self._lake.views(database.name)]
                names += [database.name, *(full_name(database.name, name) for name in (*tables, *views))]
            self._names, self._version = names, version
        return self._names

    def _columns(self, text: str, names: list[str]) -> Iterator[str]:
        for database, table in _TABLE.findall(text):
            if full_name(database, table) in names:
                try:
                    schema = self._lake.catalog.table(database, table).schema
                except MoulinError:
                    continue  # a view
                yield from (field.name for field in schema.fields)
