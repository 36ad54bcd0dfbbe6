"""`moulin task`: list merge tasks, and release or delete those whose worker is gone or keeps failing."""

# Decisions: docs/decisions/0230

from __future__ import annotations

import time
from typing import Annotated, Any
from uuid import UUID

import typer

from moulin.cli.help import examples
from moulin.cli.options import Json, open_lake
from moulin.cli.output import say, show_rows, show_values
from moulin.cli.values import Bytes, moment
from moulin.errors import InvalidInput, MoulinError, NotFound
from moulin.lake import Lake
from moulin.model.merge_task import MergeTask
from moulin.model.operations import Claim

app = typer.Typer(
    help="Merge tasks: compactions that are waiting or running.",
    no_args_is_help=True,
    epilog=examples("moulin task list shop.orders", "moulin task show $TASK", "moulin task release $TASK"),
)

TaskId = Annotated[str, typer.Argument(metavar="TASK", help="The id of a task; see `moulin task list`.")]
_ANY_ATTEMPT = 0
_SHOWN_ERROR = 80


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="task")


@app.command("list", epilog=examples("moulin task list shop.orders"))
def list_tasks(
    context: typer.Context,
    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="Only the tasks of this table (database.table).")
    ] = None,
    as_json: Json = False,
) -> None:
    """List unfinished merge tasks, oldest first, with their workers."""
    with open_lake(context) as lake:
        table_id = None if table is None else lake.table(table).id
        found = lake.catalog.maintenance.merge_tasks(table_id)
        names = _names(lake, found)
    rows = [_row(task, names[task.table_id]) for task in found]
    if not as_json:
        rows = [{**row, "last_error": (row["last_error"] or "")[:_SHOWN_ERROR]} for row in rows]
    show_rows(rows, as_json, empty="There are no merge tasks.")


@app.command(epilog=examples("moulin task show $TASK"))
def show(context: typer.Context, task: TaskId, as_json: Json = False) -> None:
    """Show a merge task: its worker, lease, segments and last error."""
    task_id = _id(task)
    with open_lake(context) as lake:
        found, figures = lake.catalog.maintenance.merge_task(task_id)
        inputs = lake.catalog.maintenance.merge_task_inputs(task_id)
        name = _names(lake, [found])[found.table_id]
    values = _row(found, name)
    values |= {
        "created": moment(found.created_at),
        "inputs": list(inputs),
        "bytes": Bytes(figures.total),
        "smallest": Bytes(figures.smallest),
        "largest": Bytes(figures.largest),
        "times_from": moment(figures.time_min),
        "times_to": moment(figures.time_max),
    }
    show_values(values, as_json)


@app.command(epilog=examples("moulin task release $TASK"))
def release(context: typer.Context, task: TaskId, as_json: Json = False) -> None:
    """Make a merge task available at once: take it from its worker, or end its back-off or quarantine."""
    with open_lake(context) as lake:
        released = lake.catalog.maintenance.release_merge_task(Claim(_id(task), _ANY_ATTEMPT))
    text = f"Released merge task {task}." if released else f"Merge task {task} was already free."
    say(text, as_json, task=task, released=released)


@app.command(epilog=examples("moulin task delete $TASK"))
def delete(context: typer.Context, task: TaskId, as_json: Json = False) -> None:
    """Delete a merge task. Its segments do not change and can be planned again."""
    with open_lake(context) as lake:
        if not lake.catalog.maintenance.delete_merge_task(_id(task)):
            raise NotFound(f"Merge task {task} does not exist; it may be finished or deleted.")
    say(f"Deleted merge task {task}; its segments are free.", as_json, task=task, deleted=True)


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is not a merge task id: it must be a UUID, see `moulin task list`.") from None


def _names(lake: Lake, tasks: list[MergeTask]) -> dict[UUID, str]:
    """The names of the tables of tasks; the id if the table is gone."""
    names = {}
    for table_id in {task.table_id for task in tasks}:
        try:
            names[table_id] = lake.catalog.table_by_id(table_id).full_name
        except MoulinError:
            names[table_id] = str(table_id)
    return names


def _row(task: MergeTask, table: str) -> dict[str, Any]:
    now = time.time_ns()
    left = task.seconds_left(now)
    return {
        "id": str(task.id),
        "table": table,
        "state": task.shown_state(now),
        "segments": task.segments,
        "level": task.level,
        "worker": task.worker,
        "claimed": moment(task.claimed_at),
        "free_in_seconds": None if left is None else round(left, 1),
        "attempt": task.attempt,
        "failures": task.failures,
        "last_error": task.last_error,
    }
