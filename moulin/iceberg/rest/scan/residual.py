"""Computes the residual of a scan's filter for one file, using the catalog's statistics of the file.

A part that every row of the file passes becomes `true`, one that none passes `false`, and both are simplified away.
Parts that the catalog cannot decide are kept unchanged.
"""

# Decisions: docs/decisions/0523

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from moulin.iceberg.rest.scan.filter import read_filter
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.predicate import Predicate
from moulin.table.read.scan import facts_by_field

_MOST: Final = 64
"""Parts of a filter that are looked at for each file; of a longer one nothing is left out."""

_Judge = Callable[[LiveSegment], Any]


class Residuals:
    """The residuals of one filter over the files of a table."""

    def __init__(self, document: Any, state: TableState) -> None:
        self._state, self._parts = state, 0
        self.field_ids: set[int] = set()
        judge = self._judge(document, 0)
        self.of: _Judge = judge if self._parts <= _MOST else lambda _: document

    def _judge(self, node: Any, depth: int) -> _Judge:
        if isinstance(node, dict) and node.get("type") in ("and", "or") and depth < _MOST:
            left, right = (self._judge(node.get(side), depth + 1) for side in ("left", "right"))
            return _joined(node, left, right)
        self._parts += 1
        if isinstance(node, bool):
            return lambda _: node
        part = _Part(
            node,
            self._state,
            read_filter(node, self._state.schema),
            read_filter(node, self._state.schema, surely=True),
        )
        self.field_ids |= part.may.field_ids | part.must.field_ids
        return part.judge


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a filter: a predicate that lets through all of its rows, and one that lets through no others."""

    node: Any
    state: TableState
    may: Predicate
    must: Predicate

    def judge(self, segment: LiveSegment) -> Any:
        facts, rows, where = facts_by_field(segment), segment.facts.rows, self._partition(segment)
        if not (self.may.may_match(facts, rows) and self.may.may_match_partition(*where)):
            return False
        if self.must.must_match(facts, rows) or self.must.must_match_partition(*where):
            return True
        return self.node

    def _partition(self, segment: LiveSegment) -> tuple[Any, Any, Any]:
        return self.state.specs[segment.facts.spec_id], self.state.schema, segment.facts.partition


def _joined(node: Any, left: _Judge, right: _Judge) -> _Judge:
    """`and` and `or`: the one value decides, the other leaves what is beside it."""
    decides = node["type"] == "or"

    def judge(segment: LiveSegment) -> Any:
        sides = left(segment), right(segment)
        if any(side is decides for side in sides):
            return decides
        rest = [side for side in sides if not isinstance(side, bool)]
        if len(rest) < 2:
            return rest[0] if rest else not decides
        return {"type": node["type"], "left": rest[0], "right": rest[1]}

    return judge


__all__ = ["Residuals"]
