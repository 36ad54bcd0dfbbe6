"""Progress of a command: a bar with rate and estimate on standard error, removed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from moulin.cli.output import errors
from moulin.cli.values import size

if TYPE_CHECKING:
    from moulin.lake import Lake

Unit = Literal["rows", "bytes", "parts"]


class Bar:
    """Shows progress."""

    def __init__(self, progress: Progress, text: str) -> None:
        self._progress = progress
        self._task = progress.add_task(escape(text), total=None, unit="parts")

    def of(self, done: float, total: float | None, unit: Unit = "parts") -> None:
        """`done` of `total` units. If `done` decreases, the next part of the work has started."""
        if done < self._progress.tasks[0].completed:
            self._progress.reset(self._task)
        self._progress.update(self._task, completed=done, total=total, unit=unit)

    def rows(self, rows: int, part: float | None = None) -> None:
        """The number of rows; `part` is their share of the total, between 0 and 1, if that is known."""
        self.of(rows, None if not part else max(rows / min(part, 1.0), rows), "rows")

    def say(self, text: str) -> None:
        self._progress.update(self._task, description=escape(text))


class _Rate(ProgressColumn):
    """Units per second."""

    def render(self, task: Task) -> Text:
        speed, unit = task.finished_speed or task.speed, task.fields.get("unit", "parts")
        if not speed or task.completed <= 0:
            return Text("")
        if unit == "bytes":
            return Text(f"{size(int(speed))}/s")
        return Text(f"{speed:,.0f} {unit}/s" if speed >= 10 else f"{speed:,.1f} {unit}/s")


class _Left(TimeRemainingColumn):
    """The remaining time as text, once it can be estimated."""

    def render(self, task: Task) -> Text:
        if task.total is None or task.time_remaining is None:
            return Text("")
        return Text.assemble(super().render(task), " left")


@contextmanager
def progress(text: str, *, quiet: bool = False, lake: Lake | None = None) -> Iterator[Bar]:
    """Show a progress bar while the block runs; nothing with `quiet` or without a terminal.

    With a lake it counts the slices of compaction, indexes, adoption and erasure.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        _Rate(),
        TimeElapsedColumn(),
        _Left(),
    )
    unseen = quiet or not errors.is_terminal
    with Progress(*columns, console=errors, transient=True, disable=unseen) as shown:
        bar = Bar(shown, text)
        if lake is not None and not unseen:
            lake.context.on_slice = bar.of
        try:
            yield bar
        finally:
            if lake is not None and not unseen:
                lake.context.on_slice = None


__all__ = ["Bar", "progress"]
