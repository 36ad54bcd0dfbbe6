"""`moulin history`: the versions of a lake, newest first, with its branches as a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moulin.cli.help import examples
from moulin.cli.options import Json, Limit, open_lake, rows_to_show
from moulin.cli.output import say, show_rows
from moulin.cli.values import moment, shown
from moulin.model.names import AT

if TYPE_CHECKING:
    from moulin.catalog.objects.browse import Activity, TableChange
    from moulin.model.entities import Branch

_PAGE = 500
_NAMED = 3  # changes of a version that its line names


def register(root: typer.Typer) -> None:
    root.command(epilog=examples("moulin history --limit 10", "moulin history --graph"))(history)


def history(
    context: typer.Context,
    graph: Annotated[bool, typer.Option("--graph", help="Draw the branches as a graph.")] = False,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Show the versions of the lake, newest first, with the changes in each."""
    count = rows_to_show(limit, as_json, usual=20)
    with open_lake(context) as lake:
        catalog = lake.own_catalog()
        found: list[Activity] = []
        before: int | None = None
        while page := catalog.overview.activity(-1, before, min(_PAGE, _PAGE if count is None else count - len(found))):
            found += page
            before = page[-1].version
            if count is not None and len(found) >= count:
                break
        branches = lake.branches(include_dropped=True)
        more = count is not None and bool(found) and bool(catalog.overview.activity(-1, found[-1].version, 1))
    if graph and not as_json:
        for line in draw(found, branches):
            say(line)
    else:
        show_rows(map(_row, found) if as_json else map(_line, found), as_json, empty="The lake has no version yet.")
    if more and not as_json:
        say(f"Showing the newest {len(found):,} versions; --limit 0 shows all.")


def _row(one: Activity) -> dict[str, Any]:
    changes = [
        {
            "branch": branch_of(change),
            "table": _name(change),
            "operation": change.kind,
            "added_rows": change.added_rows,
            "summary": dict(change.summary),
        }
        for change in one.changes
    ]
    return {
        "version": one.version,
        "when": moment(one.timestamp_ns),
        "kind": one.kind,
        "tables": one.tables,
        "changes": changes,
    }


def _line(one: Activity) -> dict[str, Any]:
    return {"version": one.version, "when": moment(one.timestamp_ns), "what": _what(one)}


def _what(one: Activity) -> str:
    named = [f"{change.kind} {change.database}.{change.name}{_rows(change)}" for change in one.changes[:_NAMED]]
    if one.tables > _NAMED:
        named.append(f"and {one.tables - _NAMED:,} more tables")
    return ", ".join(named) or one.kind


def _rows(change: TableChange) -> str:
    return f" (+{change.added_rows:,} rows)" if change.added_rows else ""


def branch_of(change: TableChange) -> str | None:
    """The branch whose table a version changed; None for main."""
    return change.database.rpartition(AT)[2] if AT in change.database else None


def _name(change: TableChange) -> str:
    return f"{change.database.partition(AT)[0]}.{change.name}"


def draw(versions: Sequence[Activity], branches: Sequence[Branch]) -> Iterator[str]:
    """The versions, newest first, as a graph: main is the first line, and each branch has a line from creation to drop.

    A branch leaves main at its fork version and joins it at the version that published it.
    """
    forks: dict[int, list[str]] = {}
    published: dict[int, list[str]] = {}
    for branch in branches:
        forks.setdefault(branch.version, []).append(branch.name)
        if branch.published_version is not None:
            published.setdefault(branch.published_version, []).append(branch.name)
    known = {branch.name for branch in branches}
    lines: list[str | None] = [None]  # main, then the branches that are drawn; a line that ended leaves a gap

    def bars(at: int = -1) -> str:
        marks = ["●" if at == n else "│" if n == 0 or name else " " for n, name in enumerate(lines)]
        return " ".join(marks).rstrip()

    def turn(number: int, end: str) -> str:
        middle = ["┼" if lines[n] else "─" for n in range(1, number)]
        rest = ["│" if name else " " for name in lines[number + 1 :]]
        return " ".join([*"├", *middle, end, *rest]).replace(" ", "─", number).rstrip()

    def opened(name: str) -> int:
        if None in lines[1:]:
            number = lines.index(None, 1)
            lines[number] = name
            return number
        lines.append(name)
        return len(lines) - 1

    for one in versions:
        for name in forks.get(one.version, ()):
            number = lines.index(name) if name in lines else opened(name)
            yield f"{turn(number, '╯')}  branch {name}"
            lines[number] = None
            while len(lines) > 1 and lines[-1] is None:
                lines.pop()
        on = next((found for change in one.changes if (found := branch_of(change)) in known), None)
        at = 0 if on is None else lines.index(on) if on in lines else opened(on)
        yield f"{bars(at)}  {one.version}  {shown(moment(one.timestamp_ns))}  {_what(one)}"
        for name in published.get(one.version, ()):
            if name not in lines:
                yield f"{turn(opened(name), '╮')}  published {name}"


__all__ = ["branch_of", "draw", "history", "register"]
