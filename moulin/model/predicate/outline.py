"""The outline of a condition: its columns and operators, without the values that it compares with.

Summaries of commits hold outlines. They stay in the history and in manifests for as long as the version does, and a
value, such as the name of the person whose rows were deleted, must not.
"""

from __future__ import annotations

import re

from moulin.model.predicate.condition import (
    And,
    Compare,
    Computed,
    Condition,
    Constant,
    Contains,
    In,
    IsNan,
    IsNull,
    Like,
    Or,
)


def outline(condition: Condition) -> str:
    """A condition as text, with ? for each value: `user = ? and (ts < ? or note is null)`."""
    match condition:
        case Constant():
            return "true" if condition.value else "false"
        case And():
            return " and ".join(_inner(child) for child in condition.children)
        case Or():
            return " or ".join(_inner(child) for child in condition.children)
        case Compare():
            return f"{condition.column.name} {condition.operator} ?"
        case In():
            return f"{condition.column.name} {'not ' * condition.negated}in (?)"
        case IsNull():
            return f"{condition.column.name} is {'not ' * condition.negated}null"
        case IsNan():
            return f"{'not ' * condition.negated}isnan({condition.column.name})"
        case Like():
            word = "ilike" if condition.ignore_case else "like"
            return f"{condition.column.name} {'not ' * condition.negated}{word} ?"
        case Contains():
            return f"{'not ' * condition.negated}array_contains({condition.column.name}, ?)"
        case Computed():
            return f"a condition on {', '.join(sorted(column.name for column in condition.columns))}"


def _inner(condition: Condition) -> str:
    text = outline(condition)
    return f"({text})" if isinstance(condition, And | Or) else text


# Text in quotes, and numbers: what a condition compares with. Names in backquotes or double quotes stay.
_VALUE = re.compile(r"'(?:[^']|'')*'?|(?<![\w`\".])[-+]?\d[\w.+-]*")


def without_values(text: str) -> str:
    """The text of a condition with ? for each value, for texts that were kept as they were written."""
    return _VALUE.sub("?", text)
