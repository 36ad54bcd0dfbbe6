"""Statements that Spark's parser does not read: a few of Iceberg's and Delta's words, and the lake's own."""

# Decisions: docs/decisions/0250

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from moulin.errors import InvalidInput
from moulin.pipeline.sql.catalyst import LogicalPlan
from moulin.pipeline.statements.tokens import Reader, Token, first_word, tokens_of

Name = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Own:
    """A statement of this grammar: its kind, the table that it names, and what else it says."""

    kind: str
    table: Name = ()
    values: Mapping[str, Any] = field(default_factory=dict)

    def nodeName(self) -> str:  # noqa: N802 - as Spark's plans call it
        return self.kind


@dataclass(frozen=True, slots=True)
class KeyClause:
    """CREATE TABLE ... PRIMARY KEY (...) AS SELECT ...: the columns of the key, and the text without the clause."""

    columns: tuple[str, ...]
    rest: str


@dataclass(frozen=True, slots=True)
class WithKey:
    """A definition of a table as Spark parsed it, and the key that stood beside it."""

    plan: LogicalPlan
    columns: tuple[str, ...]

    def nodeName(self) -> str:  # noqa: N802 - as Spark's plans call it
        return "WithKey"


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column to sort by, with its direction and its place of nulls as text, which may be empty."""

    column: Name
    order: str


def read(text: str) -> Own | KeyClause | None:
    """The statement, if it is one of this grammar; None leaves it to Spark."""
    reading = _STATEMENTS.get(first_word(text))
    return None if reading is None else reading(text, tokens_of(text))


def sort_keys(text: str, usage: str) -> list[SortKey]:
    """The columns of a sort order as SQL writes it: "ts desc nulls last, `a b`"."""
    reader = Reader(tokens_of(text), usage)
    found = _sort_keys(reader)
    reader.end()
    return found


def _undrop(_: str, tokens: list[Token]) -> Own:
    reader = Reader(tokens, "UNDROP TABLE database.table")
    reader.expect("undrop table")
    return _ended(reader, Own("UndropTable", reader.name()))


def _optimize(_: str, tokens: list[Token]) -> Own:
    reader = Reader(tokens, "OPTIMIZE database.table [FULL]")
    reader.expect("optimize")
    reader.accept("table")
    return _ended(reader, Own("Optimize", reader.name(), {"everything": reader.accept("full")}))


def _vacuum(_: str, tokens: list[Token]) -> Own:
    reader = Reader(tokens, "VACUUM alone: it cleans up the whole lake, and keeps what history_keep protects")
    reader.expect("vacuum")
    return _ended(reader, Own("Vacuum"))


def _restore(_: str, tokens: list[Token]) -> Own:
    reader = Reader(tokens, "RESTORE TABLE database.table TO VERSION AS OF 12")
    reader.expect("restore")
    reader.accept("table")
    table = reader.name()
    reader.accept("to")
    reader.expect("version as of")
    return _ended(reader, Own("RestoreTable", table, {"version": reader.number()}))


def _describe(_: str, tokens: list[Token]) -> Own | None:
    if len(tokens) < 3 or not tokens[1].is_word("history") or tokens[2].text == ".":
        return None
    reader = Reader(tokens[2:], "DESCRIBE HISTORY database.table [LIMIT 10]")
    reader.accept("table")
    table = reader.name()
    return _ended(reader, Own("DescribeHistory", table, {"limit": reader.number() if reader.accept("limit") else None}))


def _create(text: str, tokens: list[Token]) -> Own | KeyClause | None:
    reader = Reader(tokens)
    reader.accept("create")
    replaces = reader.accept("or replace")
    if reader.accept("tag"):
        return _create_tag(reader, replaces)
    if reader.accept("index on"):
        return _create_index(reader)
    return _with_key(text, tokens) if reader.accept("table") else None


def _replace(text: str, tokens: list[Token]) -> KeyClause | None:
    return _with_key(text, tokens) if Reader(tokens).accept("replace table") else None


def _create_tag(reader: Reader, replaces: bool) -> Own:
    reader.usage = "CREATE [OR REPLACE] TAG [IF NOT EXISTS] name ON database.table [AS OF VERSION 12]"
    values: dict[str, Any] = {"replaces": replaces, "if_not_exists": reader.accept("if not exists")}
    values["name"] = reader.one_name()
    reader.expect("on")
    reader.accept("table")
    table = reader.name()
    values["version"] = reader.number() if reader.accept("as of version") else None
    return _ended(reader, Own("CreateTag", table, values))


def _create_index(reader: Reader) -> Own:
    reader.usage = "CREATE INDEX [name] ON database.table [USING btree | bloom | bitmap | label_list] (column)"
    reader.accept("table")
    table = reader.name()
    kind = reader.one_name() if reader.accept("using") else ""
    reader.expect("(")
    column = reader.name()
    reader.expect(")")
    return _ended(reader, Own("CreateUnnamedIndex", table, {"kind": kind, "column": column}))


def _drop(_: str, tokens: list[Token]) -> Own | None:
    reader = Reader(tokens, "DROP TAG [IF EXISTS] name ON database.table")
    if not reader.accept("drop tag"):
        return None
    if_exists = reader.accept("if exists")
    name = reader.one_name()
    reader.expect("on")
    reader.accept("table")
    return _ended(reader, Own("DropTag", reader.name(), {"name": name, "if_exists": if_exists}))


def _alter(_: str, tokens: list[Token]) -> Own | None:
    reader = Reader(tokens, "ALTER TABLE database.table ...")
    if not reader.accept("alter table") or reader.at_end:
        return None
    table = reader.name()
    if reader.accept("write"):
        return _write_order(reader, table)
    for action in ("add", "drop", "replace"):
        if reader.accept(f"{action} partition field"):
            return _partition_field(reader, table, action)
    return None


def _write_order(reader: Reader, table: Name) -> Own:
    reader.usage = (
        "ALTER TABLE database.table WRITE ORDERED BY column [ASC | DESC] [NULLS FIRST | LAST], ... or WRITE UNORDERED"
    )
    if reader.accept("unordered"):
        return _ended(reader, Own("WriteOrder", table, {"keys": []}))
    reader.accept("locally")
    reader.expect("ordered by")
    return _ended(reader, Own("WriteOrder", table, {"keys": _sort_keys(reader)}))


def _partition_field(reader: Reader, table: Name, action: str) -> Own:
    reader.usage = {
        "add": "ALTER TABLE database.table ADD PARTITION FIELD days(ts)",
        "drop": "ALTER TABLE database.table DROP PARTITION FIELD days(ts)",
        "replace": "ALTER TABLE database.table REPLACE PARTITION FIELD days(ts) WITH hours(ts)",
    }[action]
    values = {"action": action, "field": _transform(reader)}
    if action == "replace":
        reader.expect("with")
        values["new"] = _transform(reader)
    return _ended(reader, Own("PartitionField", table, values))


def _transform(reader: Reader) -> tuple[str | None, int | None, Name]:
    """A transform, its number and its column: days(ts), bucket(4, id), or a column or field alone."""
    name = reader.name()
    if len(name) > 1 or not reader.accept("("):
        return None, None, name
    number = None
    try:
        number = reader.number()
    except InvalidInput:
        column = reader.name()
    else:
        reader.expect(",")
        column = reader.name()
    reader.expect(")")
    return name[0], number, column


def _sort_keys(reader: Reader) -> list[SortKey]:
    parentheses = reader.accept("(")
    found = [_sort_key(reader)]
    while reader.accept(","):
        found.append(_sort_key(reader))
    if parentheses:
        reader.expect(")")
    return found


def _sort_key(reader: Reader) -> SortKey:
    column = reader.name()
    order = [word for word in ("asc", "desc") if reader.accept(word)]
    order += [words for words in ("nulls first", "nulls last") if reader.accept(words)]
    return SortKey(column, " ".join(order))


def _with_key(text: str, tokens: Sequence[Token]) -> KeyClause | None:
    """A definition of a table with a key beside its columns, which Spark's parser knows among them alone."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.text in ("(", ")"):
            depth += 1 if token.text == "(" else -1
        if depth == 0 and token.is_word("as"):
            return None
        if (
            depth == 0
            and token.is_word("primary")
            and tokens[index + 1 : index + 2]
            and tokens[index + 1].is_word("key")
        ):
            return _key_clause(text, tokens, index)
    return None


def _key_clause(text: str, tokens: Sequence[Token], first: int) -> KeyClause:
    last = next((index for index in range(first, len(tokens)) if tokens[index].text == ")"), len(tokens) - 1)
    reader = Reader(
        list(tokens[first : last + 1]), "CREATE TABLE database.table [(columns)] PRIMARY KEY (column, ...) ..."
    )
    reader.expect("primary key (")
    columns = [reader.one_name()]
    while reader.accept(","):
        columns.append(reader.one_name())
    reader.expect(")")
    reader.end()
    return KeyClause(tuple(columns), text[: tokens[first].start] + " " + text[tokens[last].end :])


def _ended(reader: Reader, statement: Own) -> Own:
    reader.end()
    return statement


_STATEMENTS: Mapping[str, Callable[[str, list[Token]], Own | KeyClause | None]] = MappingProxyType(
    {
        "undrop": _undrop,
        "optimize": _optimize,
        "vacuum": _vacuum,
        "restore": _restore,
        "describe": _describe,
        "desc": _describe,
        "create": _create,
        "replace": _replace,
        "drop": _drop,
        "alter": _alter,
    }
)
