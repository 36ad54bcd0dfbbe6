"""The entry point of an erase: runs here, if the catalog is here, or on the server."""

# Decisions: docs/decisions/0443, docs/decisions/0620

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

from moulin.catalog.upkeep import erasures
from moulin.errors import InvalidInput, NotFound
from moulin.model.where import Where
from moulin.table.context import Context
from moulin.table.erase import report as reports
from moulin.table.erase.erase import erase_rows
from moulin.table.keyed.tables import open_on_any_line


@dataclass(frozen=True, slots=True)
class Erasure:
    """What an erase did. `report` names every file, signed.

    `complete` says that nothing in the lake is left to do: else the report's `pending`, `in_flight` or `catalog` says
    what.
    """

    version: int
    rows: int
    segments: int
    files: int
    complete: bool
    report: dict[str, Any] = field(repr=False)


@runtime_checkable
class Server(Protocol):
    """A catalog behind a server, which erases where the catalog is."""

    def erase_rows(self, table_id: UUID, where: str) -> dict[str, Any]:
        """The report of an erase, without its signature."""


def erase(context: Context, table_id: UUID, where: Where, key: bytes | None) -> Erasure:
    """Erase the rows that match from every version, here or through the server, and sign the report here."""
    server = getattr(context.catalog, "whole", context.catalog)  # that of a branch is the lake's
    if not isinstance(server, Server):
        return _erasure(erase_rows(context, table_id, where), key)
    if not isinstance(where, str):
        raise InvalidInput("Through a server, the condition of an erase must be SQL text; 'true' erases every row.")
    with ExitStack() as stack:
        _let_go(stack, context, table_id)
        return _erasure(server.erase_rows(table_id, where), key)


def _let_go(stack: ExitStack, context: Context, table_id: UUID) -> None:
    """Give up the regions that this process holds of the tables that may share segments: the server claims them."""
    mine = _root(context, table_id)
    for one in sorted({table_id for line in context.lines for table_id in line.keyed}):
        if (keyed := open_on_any_line(context, one)) is not None and _root(context, one) == mine:
            stack.enter_context(keyed.given_up())


def _root(context: Context, table_id: UUID) -> UUID:
    """The table that a clone of a clone began with, as far as tables still exist."""
    try:
        while (base := context.catalog.table_by_id(table_id).base_id) is not None:
            table_id = base
    except NotFound:
        pass
    return table_id


def _erasure(report: dict[str, Any], key: bytes | None) -> Erasure:
    return Erasure(
        report["version"],
        report["rows"],
        len(report["rewritten"]) + len(report["removed"]),
        len(report["deleted"]),
        report["catalog"] != erasures.BUSY and not report["in_flight"] and not report.get("pending"),
        reports.sign(report, key),
    )


__all__ = ["Erasure", "erase"]
