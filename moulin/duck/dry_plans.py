"""Keeps track of dry plans, and of the segments that a statement needs.

Calls come in pairs and nested, as DuckDB evaluates arguments before it calls a function. `begin` begins a dry plan; the
tables in it are asked for by pairs of their own and get stand-ins; `end` ends it and reads it. A statement has one dry
plan, for all of its tables.

All of this happens in the thread that runs the statement. DuckDB's transaction number identifies statements: the state
of a failed statement is discarded when the next one starts.
"""

# Decisions: docs/decisions/0275

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from moulin.duck.asked import Named, asked, planned_text, stand_in
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import TRUE, Condition
from moulin.table.context import Context
from moulin.table.find.index_search import narrow
from moulin.table.read.scan import plan_segments

NO_STATEMENT = 2**64 - 1
"""DuckDB's number when it asks for columns, as of a relation, and will plan again to run."""

Call = Literal["columns", "dry", "stand-in", "rows"]


@dataclass
class _Statement(threading.local):
    """The statement that this thread plans, and its calls that have begun and not ended."""

    number: int = NO_STATEMENT
    calls: list[Call] = field(default_factory=list)
    named: dict[int, Named] = field(default_factory=dict)
    asked: Mapping[tuple[UUID, int], Condition] | None = None


class DryPlans:
    """Those of one connection and its cursors. Thread-safe."""

    def __init__(self) -> None:
        self._statement = _Statement()
        self._marks = itertools.count()

    def begin(self, number: int, text: str | None) -> str | None:
        """The text to make a dry plan of; None when none is wanted, or there is one."""
        statement = self._statement
        if statement.number != number or number == NO_STATEMENT:
            statement.number, statement.calls, statement.named, statement.asked = number, [], {}, None
        call: Call = "dry"
        if number == NO_STATEMENT:
            call = "columns"
        elif "dry" in statement.calls:
            call = "stand-in"
        elif text is None or statement.asked is not None:
            call = "rows"
        statement.calls.append(call)
        return None if text is None or call != "dry" else planned_text(text)

    def end(self, plan: str | None) -> Call:
        """What the call that began last is for; `plan` is what DuckDB made of the text that `begin` returned."""
        statement = self._statement
        call = statement.calls.pop()
        if call != "dry":
            return call
        statement.asked = asked(plan, statement.named)
        return "rows"

    def stand_in(self, state: TableState) -> str:
        """The SELECT of a table in the dry plan that is being made."""
        mark = next(self._marks)
        self._statement.named[mark] = Named(state.id, state.version, state.schema)
        return stand_in(mark, state.schema)

    def segments(self, context: Context, state: TableState) -> Sequence[LiveSegment] | None:
        """The segments that the statement asks for; None for all of them."""
        condition = (self._statement.asked or {}).get((state.id, state.version), TRUE)
        predicate = Predicate.of(state.schema, condition, "a statement in DuckDB")
        if predicate.is_true:
            return None
        planned = plan_segments(context.catalog, state, predicate)
        return narrow(context.catalog, context.secondary, state, predicate, planned).segments
