"""Names of lake tables in Spark SQL: found with sqlglot, and replaced in the text as the user wrote it.

Only the names, their `version as of`, and the database in front of qualified columns change; generating the text anew
from the syntax tree would change what Spark understands.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from moulin.errors import InvalidInput, Unsupported
from moulin.model.names import quote
from moulin.pipeline.sql_where import Known, known_values

_DIALECT = "spark"
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
_CHANGES = (exp.DML, exp.DDL, exp.Drop, exp.Alter, exp.TruncateTable)
# Escapes and doubled quotes may be read differently by Spark, and in pipes the names of columns change underway.
_DOUBTFUL = ("\\", "''", '""', "|>")
_TRAVEL = {"VERSION": False, "SYSTEM_VERSION": False, "TIMESTAMP": True, "SYSTEM_TIME": True}


@dataclass(frozen=True, slots=True)
class Reference:
    """A table that a statement names, with the version or the time it asks for, and what it asks of its rows."""

    database: str
    name: str
    version: int | None = None
    timestamp: str | None = None
    known: tuple[Known, ...] = ()


@dataclass(frozen=True, slots=True)
class _Edit:
    """Characters [start, stop) of the text, and what stands in their place."""

    start: int
    stop: int
    text: str


class Statement:
    """A query, its references to lake tables, and the places in its text where they stand."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: list[_Edit] = []
        self._places: dict[Reference, list[tuple[int, int]]] = {}
        check_is_query(text)
        self.is_parsed = True
        explain = _EXPLAIN.match(text)
        self._offset = explain.end() if explain else 0
        try:
            body = text[self._offset :]
            tree = _parse(body)
            self._tokens = sqlglot.tokenize(body, dialect=_DIALECT)
        except SqlglotError:
            self.is_parsed = (
                False  # Spark may know syntax that sqlglot does not; without lake tables it can run as it is
            )
            return
        if any(tree.find(*_CHANGES) for tree in tree):
            raise InvalidInput(
                "lake.sql runs queries and changes nothing: use table.append, delete_where or overwrite."
            )
        self._find(tree)

    @property
    def references(self) -> Sequence[Reference]:
        """The lake tables it names, each once."""
        return list(self._places)

    def with_names(self, names: Callable[[Reference], str]) -> str:
        """The text with the name that `names` gives to each reference in its place."""
        edits = list(self._edits)
        for reference, places in self._places.items():
            edits += [_Edit(start, stop, quote(names(reference))) for start, stop in places]
        text = self._text
        for edit in sorted(edits, key=lambda e: (e.start, e.stop), reverse=True):
            text = text[: edit.start + self._offset] + edit.text + text[edit.stop + self._offset :]
        return text

    def _find(self, trees: Sequence[exp.Expression]) -> None:
        starts = {token.start: place for place, token in enumerate(self._tokens)}
        unaliased: set[tuple[str, str]] = set()
        seen: set[int] = set()
        for tree in trees:
            for table in tree.find_all(exp.Table):
                parts = _lake_name(table)
                if parts is None or parts[0].meta["start"] in seen:
                    continue
                seen.add(parts[0].meta["start"])
                if self._add(table, parts, starts):
                    unaliased.add((parts[0].name.lower(), parts[1].name.lower()))
        for tree in trees:
            for column in tree.find_all(exp.Column):
                self._strip_database(column, unaliased)

    def _add(self, table: exp.Table, parts: Sequence[exp.Identifier], starts: dict[int, int]) -> bool:
        """Note one reference; true when it got its table's name as alias, because it had none."""
        begin, end = parts[0].meta["start"], parts[1].meta["end"] + 1
        following = starts[parts[1].meta["start"]] + 1
        travel, following = _travel(self._tokens, following)
        known = () if any(mark in self._text for mark in _DOUBTFUL) else known_values(table)
        reference = Reference(parts[0].name, parts[1].name, *travel, known)
        self._places.setdefault(reference, []).append((begin, end))
        if travel != (None, None):
            end_of_travel = self._tokens[following - 1].end + 1
            self._edits.append(_Edit(end, end_of_travel, ""))
        if table.alias or isinstance(table.parent, exp.Describe):
            return False
        behind = self._tokens[_after_sample(self._tokens, following) - 1].end + 1
        self._edits.append(_Edit(behind, behind, f" as {quote(parts[1].name)}"))
        return True

    def _strip_database(self, column: exp.Column, unaliased: set[tuple[str, str]]) -> None:
        """shop.orders.amount becomes orders.amount, where shop.orders stands under its own name."""
        parts = [part for part in column.parts if isinstance(part, exp.Identifier)]
        if len(parts) < 2 or (len(parts) == 2 and not isinstance(column.this, exp.Star)):
            return
        if (parts[0].name.lower(), parts[1].name.lower()) in unaliased and "start" in parts[0].meta:
            self._edits.append(_Edit(parts[0].meta["start"], parts[1].meta["start"], ""))


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


def _parse(body: str) -> list[exp.Expression]:
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = (logger.disabled, True)  # it warns of syntax that it leaves to the engine
    try:
        trees: list[Any] = sqlglot.parse(body, dialect=_DIALECT)
        return [tree for tree in trees if tree is not None]
    finally:
        logger.disabled = before


def _lake_name(table: exp.Table) -> list[exp.Identifier] | None:
    """The two parts of a name that can only be a lake's: not one of Spark's own, nor a file's path."""
    parts = [part for part in table.parts if isinstance(part, exp.Identifier)]
    if len(parts) != 2 or len(table.parts) != 2 or any("start" not in part.meta for part in parts):
        return None
    if parts[0].name.lower() == "global_temp" or "/" in parts[1].name:
        return None
    return parts


def _travel(tokens: Sequence[Token], place: int) -> tuple[tuple[int | None, str | None], int]:
    """The `version as of` at this place, if there is one, and the place behind it."""
    start = place
    if _is(tokens, place, "FOR"):
        place += 1
    word = tokens[place].text.upper() if place < len(tokens) else ""
    if word not in _TRAVEL or not _is(tokens, place + 1, "AS") or not _is(tokens, place + 2, "OF"):
        return (None, None), start
    place += 3
    by_time = _TRAVEL[word]
    if by_time and any(_is(tokens, place, kind) for kind in ("TIMESTAMP", "DATE")):
        place += 1
    if place >= len(tokens) or tokens[place].token_type not in (TokenType.NUMBER, TokenType.STRING):
        wanted = "a time as text, such as '2024-03-01 12:00:00'" if by_time else "a number"
        raise InvalidInput(f"{word.lower()} as of takes {wanted}, and no expression.")
    value = tokens[place].text
    if by_time:
        return (None, value), place + 1
    if not value.isdecimal():
        raise InvalidInput(f"version as of takes the number of a version, not {value!r}.")
    return (int(value), None), place + 1


def _after_sample(tokens: Sequence[Token], place: int) -> int:
    """The place behind a TABLESAMPLE clause, which comes before a table's alias."""
    if not _is(tokens, place, "TABLESAMPLE"):
        return place
    for end in _closing(tokens, place + 1):
        place = end
    return place


def _closing(tokens: Sequence[Token], place: int) -> Iterator[int]:
    """Places behind each group in parentheses that follows, REPEATABLE in between allowed."""
    while True:
        if _is(tokens, place, "REPEATABLE"):
            place += 1
        if not _is(tokens, place, "("):
            return
        depth = 0
        while place < len(tokens):
            depth += _is(tokens, place, "(") - _is(tokens, place, ")")
            place += 1
            if depth == 0:
                break
        yield place


def _is(tokens: Sequence[Token], place: int, text: str) -> bool:
    return place < len(tokens) and tokens[place].text.upper() == text


def unparsed(text: str) -> Unsupported:
    """For a query that Spark understands and sqlglot does not, and that names something Spark does not know."""
    return Unsupported(
        "The names of tables cannot be found in this query. Make views of them with "
        "table.to_spark().createOrReplaceTempView(...) and use lake.spark().sql(...)."
    )
