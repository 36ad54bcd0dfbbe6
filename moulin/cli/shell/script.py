"""Lines of input as the statements and backslash commands that they are."""

from __future__ import annotations

from moulin.errors import InvalidInput
from moulin.statement_text import Dialect, split

COMMAND = "\\"


class Script:
    """Takes lines, and gives what is complete: commands, which are a line, and statements, which end with `;`."""

    def __init__(self) -> None:
        self._waiting = ""

    def feed(self, line: str, dialect: Dialect) -> list[str]:
        """What `line`, with its line end, completes.

        A line that begins with a backslash is a command, unless a statement has begun.
        """
        if not self._waiting and line.lstrip().startswith(COMMAND):
            return [line.strip()]
        cut = split(self._waiting + line, dialect)
        self._waiting = cut.rest
        return cut.statements

    def end(self, dialect: Dialect) -> list[str]:
        """What is left, when no more lines come. InvalidInput when it ends inside a quote or comment."""
        left, self._waiting = self._waiting, ""
        cut = split(left, dialect)
        if cut.unclosed is not None:
            raise InvalidInput(f"The input ends inside a {cut.unclosed}.")
        return [*cut.statements, cut.rest.rstrip()] if cut.rest else cut.statements


def is_complete(text: str, dialect: Dialect) -> bool:
    """Whether the Enter key ends the input: it is blank, a command, or statements that are all ended."""
    if not text.strip() or text.lstrip().startswith(COMMAND):
        return True
    cut = split(text, dialect)
    return not cut.rest and cut.unclosed is None
