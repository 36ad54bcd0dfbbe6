"""The prompt at a terminal: several lines, history, completion."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings

from moulin.cli.shell.completion import LakeCompleter
from moulin.cli.shell.script import Script, is_complete
from moulin.cli.shell.session import Session

if TYPE_CHECKING:
    from moulin.lake import Lake

_PROMPT, _MORE = "moulin> ", "     -> "
_KEPT = 1_000  # entries that \history shows


class Prompt:
    """Reads from the terminal until Ctrl-D. Ctrl-C at the prompt clears the input."""

    def __init__(self, lake: Lake) -> None:
        self._history = FileHistory(str(history_file()))
        self._session: Session | None = None
        self._prompt: PromptSession[str] = PromptSession(
            history=self._history,
            completer=LakeCompleter(lake),
            complete_while_typing=False,
            complete_in_thread=True,
            multiline=True,
            prompt_continuation=_MORE,
            key_bindings=self._keys(),
        )

    def history(self) -> list[str]:
        """The history, oldest first."""
        return self._history.get_strings()[-_KEPT:]

    def run(self, session: Session) -> None:
        self._session = session
        for text in self._texts():
            script = Script()
            for line in text.splitlines(keepends=True):
                for item in script.feed(line, session.dialect):
                    session.run(item)

    def _texts(self) -> Iterator[str]:
        while True:
            try:
                yield self._prompt.prompt(_PROMPT)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @Condition
        def ends() -> bool:
            dialect = "spark" if self._session is None else self._session.dialect
            return is_complete(self._prompt.default_buffer.text, dialect)

        @keys.add("enter", filter=ends & ~has_completions)
        def accept(event: Any) -> None:
            event.current_buffer.validate_and_handle()

        return keys


def history_file() -> Path:
    """The history file: readable only by its owner, because statements contain values."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(state) / "moulin"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / "history"
    os.close(os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    file.chmod(0o600)
    return file
