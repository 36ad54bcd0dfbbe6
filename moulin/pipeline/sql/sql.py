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
_STATEMENTS = {"delete", "insert", "merge", "truncate", "update"}
_SPARK_OWN = "it is about Spark's session and not the lake: use lake.spark().sql(...)"
_CACHE = "keep a result with lake.sql(...).cache(), and let go of it with .unpersist()"
_NO_NEED = "Moulin keeps this up to date itself: leave it out"
_INSTEAD = {
    "replace": "use table.append(data) on a keyed table, or table.overwrite(data, where=...)",
    "copy": "use table.backfill(folder) or `moulin backfill`",
    "load": "use table.backfill(folder) or `moulin backfill`",
    "import": "use table.backfill(folder) or `moulin backfill`",
    "export": "use table.export_iceberg(directory) or `moulin table export`",
    "create": "use lake.create_database(...), lake.create_table(...), lake.create_view(...) or table.create_index(...)",
    "drop": "use lake.drop_table(...), lake.drop_view(...), lake.drop_database(...) or table.drop_index(...)",
    "undrop": "use lake.resurrect_table(...) or `moulin table resurrect`",
    "alter": "use table.add_column(...), rename_column, drop_column, widen_column, set_properties or lake.rename_table",
    "comment": "descriptions are set by lake.create_database(..., description=...) and lake.create_view",
    "show": "use lake.databases(), lake.tables(...), lake.views(...), table.indexes() or `moulin table list`",
    "history": "use table.history() or `moulin table history`",
    "restore": "use table.restore(version) or `moulin table restore`",
    "optimize": "use table.compact() or `moulin compact`",
    "vacuum": "use `moulin gc`, which keeps what history_keep, pins and tags protect",
    "reorg": "use table.compact(everything=True) or `moulin compact`",
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
    "rollback": "use lake.transaction(), or table.restore(version) for what is committed",
    "call": "use the methods of the table: history(), compact(), restore(version), tag(name)",
    "lock": "commits need no locks: use lake.transaction() for changes that belong together",
    "unlock": "commits need no locks: use lake.transaction() for changes that belong together",
    "grant": "roles are given to tokens: use `moulin access`",
    "revoke": "roles are given to tokens: use `moulin access`",
    "map": "write it as a SELECT",
    "reduce": "write it as a SELECT",
    "dfs": _SPARK_OWN,
}
_DESCRIBE = re.compile(
    rf"{_SPACE}*desc(?:ribe)?{_SPACE}+(history|detail|database|schema|namespace|catalog|procedure)\b(?!{_SPACE}*(?:\.|$))",
    re.IGNORECASE | re.DOTALL,
)
_DESCRIBE_INSTEAD = {
    "history": _INSTEAD["history"],
    "detail": "use table.stats(), table.properties or `moulin table show`",
    "catalog": "use lake.databases()",
    "procedure": "there are no procedures: use the methods of the table",
}


def check_is_statement(text: object) -> None:
    """Refuse what `lake.sql` does not run, naming what to call instead."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("lake.sql takes the text of a query.")
    body = text[explain.end() :] if (explain := _EXPLAIN.match(text)) else text
    found = _FIRST_WORD.match(body)
    word = found[1].lower() if found else ""
    described = _DESCRIBE.match(body)
    if described:
        kind = described[1].lower()
        instead = _DESCRIBE_INSTEAD.get(kind, "use lake.databases() or `moulin db list`")
        raise InvalidInput(
            f"lake.sql describes tables, columns, functions and queries, and not {kind.upper()}: {instead}."
        )
    if word in _STATEMENTS and explain:
        raise InvalidInput(f"EXPLAIN shows how queries run, and this begins with {word.upper()}: explain its query.")
    if word in _QUERIES or word in _STATEMENTS:
        return
    instead = _INSTEAD.get(word, "for the rest of Spark SQL use lake.spark().sql(...)")
    raise InvalidInput(f"lake.sql runs queries, and this begins with {word.upper() or body.split()[0]!r}: {instead}.")
