"""Counts the tables in a Spark plan, from its JSON."""

# Decisions: docs/decisions/0281

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_CLASSES = tuple(
    f"org.apache.spark.sql.catalyst.analysis.{name}" for name in ("UnresolvedRelation", "PlanWithUnresolvedIdentifier")
)

_Tree = list[dict[str, Any]]


def names_at_most(text: str) -> int:
    """How many there are, where each counts as often as Spark writes it."""
    return sum(text.count(f'"class":"{name}"') for name in _CLASSES)


def names_in(text: str) -> int:
    """How many there are, those that no walk through the children of the tree reaches included.

    Spark writes the operands of some expressions twice, as CASE: as children, and in the field that holds them in a
    pair or an option. Such a field counts once.
    """
    return _names(json.loads(text))


def _names(tree: _Tree) -> int:
    """The names in a tree, which is written as its nodes, each before its children."""
    found = 0
    for position, node in enumerate(tree, 1):
        found += node["class"] in _CLASSES
        inner = [below for value in node.values() for below in _trees(value)]
        if inner and node["num-children"]:
            for child in _children(tree, position, node["num-children"]):
                if child in inner:
                    inner.remove(child)
        found += sum(map(_names, inner))
    return found


def _trees(value: Any) -> Iterator[_Tree]:
    """The trees in a field of a node."""
    match value:
        case [{"class": _, "num-children": _}, *_]:
            yield value
        case list():
            for one in value:
                yield from _trees(one)
        case dict():
            for one in value.values():
                yield from _trees(one)


def _children(tree: _Tree, position: int, count: int) -> Iterator[_Tree]:
    """The trees of the children of a node that ends before `position`."""
    for _ in range(count):
        end, open_nodes = position, 1
        while open_nodes:
            open_nodes += tree[end]["num-children"] - 1
            end += 1
        yield tree[position:end]
        position = end
