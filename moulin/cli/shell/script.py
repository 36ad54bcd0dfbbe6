"""Splits input lines into statements and backslash commands."""

from __future__ import annotations

from moulin.errors import InvalidInput
from moulin.statement_text import Dialect, split

COMMAND = "\\"


class Script:
    """Takes lines, and returns complete commands (one line) and statements (which end with `;`)."""

    def __init__(self) -> None:
        self._waiting = ""

    def feed(self, line: str, dialect: Dialect) -> list[str]:
        """What `line`, including its line end, completes.

        A line that starts with a backslash is a command, unless a statement has started.
        """
        if not self._waiting and line.lstrip().startswith(COMMAND):
            return [line.strip()]
        cut = split(self._waiting + line, dialect)
        self._waiting = cut.rest
        return cut.statements

    def end(self, dialect: Dialect) -> list[str]:
        """The remaining input at the end. InvalidInput if it ends inside a quote or comment."""
        left, self._waiting = self._waiting, ""
        cut = split(left, dialect)
        if cut.unclosed is not None:
            raise InvalidInput(f"The input ends inside a {cut.unclosed}: close it.")
        return [*cut.statements, cut.rest.rstrip()] if cut.rest else cut.statements


def is_complete(text: str, dialect: Dialect) -> bool:
    """Whether the Enter key ends the input: it is blank, a command, or only complete statements."""
    if not text.strip() or text.lstrip().startswith(COMMAND):
        return True
    cut = split(text, dialect)
    return not cut.rest and cut.unclosed is None
