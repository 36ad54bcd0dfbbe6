"""A shell while it runs: what was set, and how a statement or command is run.

A statement runs in a thread of its own, so that Ctrl-C reaches this one, which cancels it. No error ends a session.
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

_LOOK = 0.1  # seconds between looks at a running statement
_DEEPEST = 10  # files that \i may nest


class Session:
    """Fills `moulin.cli.shell.commands.Shell`. `history` returns what was typed before, the oldest first."""

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
            raise InvalidInput(f"There is no engine {name!r}: choose {' or '.join(ENGINES)}.")
        self._engine = self._opened(name)

    def use_format(self, name: str) -> None:
        if name not in FORMATS:
            raise InvalidInput(f"There is no format {name!r}: choose {', '.join(FORMATS)}.")
        self.format = name

    def run(self, text: str) -> bool:
        """Run a statement or a command, and print what it returns; False when it failed, after saying why."""
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
        """Run what a file has; it ends at the first error."""
        if self._depth == _DEEPEST:
            raise InvalidInput(f"Files run files {_DEEPEST} deep: {name} is not run.")
        text = Path(name).expanduser().read_text(encoding="utf-8")
        self._depth += 1
        try:
            if not self.run_lines(iter(text.splitlines(keepends=True)), keep_going=False):
                raise InvalidInput(f"{name} was not run to its end.")
        finally:
            self._depth -= 1

    def run_lines(self, lines: Iterator[str], *, keep_going: bool) -> bool:
        """Run the statements and commands of these lines, up to the first that fails unless told to go on."""
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
            raise InvalidInput(f"Rows as {self.format} go to a file: name it with \\o FILE.")
        cancelled = threading.Event()

        def work() -> None:
            result = self._engine.run(text, rows_wanted(self.format, self.output, self.limit))
            told = Result(result.schema, _until(cancelled, result.batches))
            write(told, self.format, self.output, self.limit, advice="\\limit 0 shows all")

        self._watch(work, cancelled)
        if self.output is not None:
            say(f"The rows are in {self.output}.")
            self.output = None

    def _watch(self, work: Callable[[], None], cancelled: threading.Event) -> None:
        """Run `work` in a thread, and cancel what it does when Ctrl-C is pressed."""
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
