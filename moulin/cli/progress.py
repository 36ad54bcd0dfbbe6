"""How far a command is: a bar with rate and estimate on standard error, gone when the command ends."""

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
    """Reports what is done of what there is."""

    def __init__(self, progress: Progress, text: str) -> None:
        self._progress = progress
        self._task = progress.add_task(escape(text), total=None, unit="parts")

    def of(self, done: float, total: float | None, unit: Unit = "parts") -> None:
        """`done` of `total` units. When less is done than before, another part of the work has begun."""
        if done < self._progress.tasks[0].completed:
            self._progress.reset(self._task)
        self._progress.update(self._task, completed=done, total=total, unit=unit)

    def rows(self, rows: int, part: float | None = None) -> None:
        """So many rows; `part` says how much of all they are, between 0 and 1, when that is known."""
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
    """The estimate, in words, once there is one."""

    def render(self, task: Task) -> Text:
        if task.total is None or task.time_remaining is None:
            return Text("")
        return Text.assemble(super().render(task), " left")


@contextmanager
def progress(text: str, *, quiet: bool = False, lake: Lake | None = None) -> Iterator[Bar]:
    """A bar while the block runs; nothing with `quiet` or when nobody watches.

    With a lake it counts the slices of what its tables cut into slices: compaction, indexes, adoption, erasure.
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
