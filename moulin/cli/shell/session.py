"""The state of a running shell, and how it runs a statement or command.

A statement runs in its own thread, so that this thread receives Ctrl-C and cancels it. No error ends a session.
"""

# Decisions: docs/decisions/0264

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from moulin.cli.documents import ReaderGone
from moulin.cli.output import complain, say
from moulin.cli.query.engines import ENGINES, Engine, engine
from moulin.cli.query.formats import rows_wanted, write
from moulin.cli.query.forms import BINARY, FORMATS
from moulin.cli.query.results import Result
from moulin.cli.shell import commands
from moulin.cli.shell.commands import Quit
from moulin.cli.shell.script import COMMAND, Script
from moulin.errors import InvalidInput, MoulinError
from moulin.statement_text import Dialect

if TYPE_CHECKING:
    from moulin.lake import Lake

_LOOK = 0.1  # seconds between two checks of a running statement
_DEEPEST = 10  # maximum nesting of \i


class Session:
    """Implements `moulin.cli.shell.commands.Shell`. `history` returns earlier input, oldest first."""

    def __init__(self, lake: Lake, engine_name: str, *, timing: bool, history: Callable[[], list[str]] = list) -> None:
        self.lake, self.timing, self.history = lake, timing, history
        self.format = "table"
        self.limit: int | None = None
        self.output: str | None = None
        self._engines: dict[str, Engine] = {}
        self._engine = self._opened(engine_name)
        self._depth = 0

    @property
    def dialect(self) -> Dialect:
        return self._engine.dialect

    def use_engine(self, name: str) -> None:
        if name not in ENGINES:
            raise InvalidInput(f"Unknown engine {name!r}: use {' or '.join(ENGINES)}.")
        self._engine = self._opened(name)

    def use_format(self, name: str) -> None:
        if name not in FORMATS:
            raise InvalidInput(f"Unknown format {name!r}: use {', '.join(FORMATS)}.")
        self.format = name

    def run(self, text: str) -> bool:
        """Run a statement or a command, and print its result. On failure print the error and return False."""
        begin = time.perf_counter()
        try:
            if text.startswith(COMMAND):
                commands.run(self, text)
            else:
                self._statement(text)
                if self.timing:
                    say(f"Time: {(time.perf_counter() - begin) * 1000:,.1f} ms")
        except (Quit, ReaderGone):
            raise
        except KeyboardInterrupt:
            complain("The statement was cancelled.")
            return False
        except MoulinError as error:
            complain(error.message)
            return False
        except OSError as error:
            where = "The system reports" if error.filename is None else f"{error.filename} cannot be used"
            complain(f"{where}: {error.strerror or error}.")
            return False
        except Exception as error:  # noqa: BLE001 - whatever a statement does, the shell goes on
            complain(f"Unexpected {type(error).__name__}: {str(error).partition(chr(10))[0][:300]}.")
            return False
        return True

    def run_file(self, name: str) -> None:
        """Run a file; stops at the first error."""
        if self._depth == _DEEPEST:
            raise InvalidInput(f"\\i is nested more than {_DEEPEST} deep: {name} is not run.")
        text = Path(name).expanduser().read_text(encoding="utf-8")
        self._depth += 1
        try:
            if not self.run_lines(iter(text.splitlines(keepends=True)), keep_going=False):
                raise InvalidInput(f"{name} stopped at an error.")
        finally:
            self._depth -= 1

    def run_lines(self, lines: Iterator[str], *, keep_going: bool) -> bool:
        """Run the statements and commands of these lines, up to the first failure unless told to continue."""
        script, fine = Script(), True
        for line in lines:
            for item in script.feed(line, self.dialect):
                fine = self.run(item) and fine
                if not fine and not keep_going:
                    return False
        try:
            left = script.end(self.dialect)
        except InvalidInput as error:
            complain(error.message)
            return False
        for item in left:
            fine = self.run(item) and fine
        return fine

    def _opened(self, name: str) -> Engine:
        if name not in self._engines:
            self._engines[name] = engine(name, self.lake, "`moulin shell`")
        return self._engines[name]

    def _statement(self, text: str) -> None:
        if self.format in BINARY and self.output is None:
            raise InvalidInput(f"Format {self.format} needs a file: use \\o FILE.")
        cancelled = threading.Event()

        def work() -> None:
            result = self._engine.run(text, rows_wanted(self.format, self.output, self.limit))
            told = Result(result.schema, _until(cancelled, result.batches))
            write(told, self.format, self.output, self.limit, advice="\\limit 0 shows all")

        self._watch(work, cancelled)
        if self.output is not None:
            say(f"Rows written to {self.output}.")
            self.output = None

    def _watch(self, work: Callable[[], None], cancelled: threading.Event) -> None:
        """Run `work` in a thread, and cancel it on Ctrl-C."""
        failures: list[BaseException] = []

        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits for it
                failures.append(error)

        thread = threading.Thread(target=guarded, name="moulin-statement", daemon=True)
        thread.start()
        while thread.is_alive():
            try:
                thread.join(_LOOK)
            except KeyboardInterrupt:
                cancelled.set()
                self._engine.cancel()
        if cancelled.is_set():
            raise KeyboardInterrupt
        if failures:
            raise failures[0]


def _until(cancelled: threading.Event, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if cancelled.is_set():
            raise KeyboardInterrupt
        yield batch
