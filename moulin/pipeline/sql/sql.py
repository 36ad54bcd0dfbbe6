"""Checks which statements `lake.sql` runs, and names the call to use for others."""

from __future__ import annotations

import re

from moulin.errors import InvalidInput
from moulin.statement_text import split

_SPACE = r"(?:\s|--[^\n]*\n|/\*.*?\*/)"
_EXPLAIN = re.compile(
    rf"{_SPACE}*explain(?:{_SPACE}+(?:extended|codegen|cost|formatted))?{_SPACE}+", re.IGNORECASE | re.DOTALL
)
_FIRST_WORD = re.compile(rf"(?:{_SPACE}|\()*(\w*)", re.DOTALL)
_QUERIES = {"select", "with", "values", "from", "table", "describe", "desc"}
_STATEMENTS = {
    *("delete", "insert", "merge", "truncate", "update"),
    *("create", "replace", "drop", "undrop", "alter", "comment", "show", "call"),
    *("optimize", "vacuum", "restore"),
}
_SPARK_OWN = "it is about Spark's session and not the lake: use lake.spark().sql(...)"
_CACHE = "keep a result with lake.sql(...).cache(), and let go of it with .unpersist()"
_NO_NEED = "Moulin keeps this up to date itself: leave it out"
_INSTEAD = {
    "copy": "use table.backfill(folder) or `moulin backfill`",
    "load": "use table.backfill(folder) or `moulin backfill`",
    "import": "use table.backfill(folder) or `moulin backfill`",
    "export": "use table.export_iceberg(directory) or `moulin table export`",
    "history": "use DESCRIBE HISTORY database.table, or SELECT * FROM database.table.history",
    "reorg": "use OPTIMIZE database.table FULL",
    "analyze": f"statistics are written with every segment; see table.stats(). {_NO_NEED}",
    "refresh": f"every query sees the newest version. {_NO_NEED}",
    "repair": f"files are found by the catalog. {_NO_NEED}",
    "msck": f"files are found by the catalog. {_NO_NEED}",
    "cache": _CACHE,
    "uncache": _CACHE,
    "clear": _CACHE,
    "use": "there is no current database: write tables as database.table",
    "set": "use lake.spark().conf.set(name, value)",
    "reset": "use lake.spark().conf.unset(name)",
    "unset": "use lake.spark().conf.unset(name)",
    "add": _SPARK_OWN,
    "list": _SPARK_OWN,
    "declare": "use the args of lake.sql(text, args) for values",
    "execute": "use the args of lake.sql(text, args): identifier(:name) takes the name of a table",
    "begin": "run the statements one by one, or use lake.transaction() for changes that belong together",
    "start": "use lake.transaction()",
    "commit": "use lake.transaction()",
    "rollback": "use lake.transaction(), or RESTORE TABLE database.table TO VERSION AS OF 12 for what is committed",
    "lock": "commits need no locks: use lake.transaction() for changes that belong together",
    "unlock": "commits need no locks: use lake.transaction() for changes that belong together",
    "grant": "roles are given to tokens: use `moulin access`",
    "revoke": "roles are given to tokens: use `moulin access`",
    "map": "write it as a SELECT",
    "reduce": "write it as a SELECT",
    "dfs": _SPARK_OWN,
}
_DESCRIBE = re.compile(
    rf"{_SPACE}*desc(?:ribe)?{_SPACE}+(detail|catalog|procedure)\b(?!{_SPACE}*(?:\.|$))",
    re.IGNORECASE | re.DOTALL,
)
_DESCRIBE_INSTEAD = {
    "detail": "use DESCRIBE EXTENDED database.table",
    "catalog": "use SHOW DATABASES",
    "procedure": "there are CALL compact, flush, gc and restore",
}


def check_is_statement(text: object) -> None:
    """Refuse what `lake.sql` does not run, naming what to call instead."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("lake.sql needs the text of a query.")
    body = text[explain.end() :] if (explain := _EXPLAIN.match(text)) else text
    found = _FIRST_WORD.match(body)
    word = found[1].lower() if found else ""
    described = _DESCRIBE.match(body)
    if described:
        kind = described[1].lower()
        raise InvalidInput(
            f"lake.sql describes tables, columns, functions and queries, and not {kind.upper()}: "
            f"{_DESCRIBE_INSTEAD[kind]}."
        )
    if word in _STATEMENTS and explain:
        raise InvalidInput(f"EXPLAIN works only for queries: run the {word.upper()} statement without it.")
    if word in _QUERIES or word in _STATEMENTS:
        _check_is_one(text)
        return
    instead = _INSTEAD.get(word, "for the rest of Spark SQL use lake.spark().sql(...)")
    raise InvalidInput(f"lake.sql runs no statement that begins with {word.upper() or body.split()[0]!r}: {instead}.")


def _check_is_one(text: str) -> None:
    if ";" not in text:
        return
    cut = split(text, "spark")
    count = len(cut.statements) + bool(cut.rest)
    if count > 1 and cut.unclosed is None:
        raise InvalidInput(
            f"lake.sql runs one statement, but the text has {count}: run them one by one, or with `moulin sql`."
        )
