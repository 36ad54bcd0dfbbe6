"""Expressions of Spark's plans as Python trees, parsed from Spark's JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

WHOLE = frozenset({"byte", "short", "integer", "long"})
"""Spark's names for the types of whole numbers."""


@dataclass(frozen=True, slots=True)
class Node:
    """An expression: its class, its fields, its operands, and how many nodes come before it in the tree."""

    kind: str
    fields: dict[str, Any]
    operands: tuple[Node, ...]
    index: int


def read_expression(text: str) -> Node:
    """The expression that a JSON describes; nodes come before their operands."""
    return _node(iter(enumerate(json.loads(text))))


def literal_text(text: str) -> str | None:
    """The text that the JSON of an expression is a literal of; None when it is something else."""
    node = read_expression(text)
    is_text = node.kind == "Literal" and node.fields["dataType"] == "string"
    return node.fields["value"] if is_text else None


def literal_number(text: str) -> int | None:
    """The whole number that the JSON of an expression is a literal of; None when it is something else."""
    node = read_expression(text)
    is_number = node.kind == "Literal" and node.fields["dataType"] in WHOLE and node.fields["value"] is not None
    return int(node.fields["value"]) if is_number else None


def _node(parts: Iterator[tuple[int, dict[str, Any]]]) -> Node:
    index, fields = next(parts)
    operands = tuple(_node(parts) for _ in range(fields["num-children"]))
    return Node(fields["class"].rpartition(".")[2], fields, operands, index)
