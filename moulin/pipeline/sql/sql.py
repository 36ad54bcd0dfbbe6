"""Which texts `lake.sql` takes, and what to call instead of the others."""

from __future__ import annotations

import re

from moulin.errors import InvalidInput

_SPACE = r"(?:\s|--[^\n]*\n|/\*.*?\*/)"
_EXPLAIN = re.compile(
    rf"{_SPACE}*explain(?:{_SPACE}+(?:extended|codegen|cost|formatted))?{_SPACE}+", re.IGNORECASE | re.DOTALL
)
_FIRST_WORD = re.compile(rf"(?:{_SPACE}|\()*(\w*)", re.DOTALL)
_QUERIES = {"select", "with", "values", "from", "table", "describe", "desc"}
_INSTEAD = {
    "insert": "table.append(data) or `moulin append`",
    "delete": "table.delete_where(...)",
    "truncate": "table.overwrite([])",
    "update": "table.merge(data) on a keyed table, or table.overwrite(data, where=...)",
    "merge": "table.merge(source, ...) on a keyed table",
    "create": "lake.create_table(...), lake.create_view(...) or `moulin table create`",
    "drop": "lake.drop_table(...) or `moulin table drop`",
    "alter": "table.add_column(...), rename_column, drop_column, widen_column and set_properties",
    "show": "lake.databases(), lake.tables(...) or `moulin table list`",
}


def check_is_query(text: object) -> None:
    """Refuse what is not a query, naming what to call instead."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("lake.sql takes the text of a query.")
    body = text[explain.end() :] if (explain := _EXPLAIN.match(text)) else text
    found = _FIRST_WORD.match(body)
    word = found[1].lower() if found else ""
    if word in _QUERIES:
        return
    instead = f"use {_INSTEAD[word]}" if word in _INSTEAD else "for the rest of Spark SQL use lake.spark().sql(...)"
    raise InvalidInput(f"lake.sql runs queries, and this begins with {word.upper() or body.split()[0]!r}: {instead}.")
