"""Checks untrusted SQL before DuckDB runs it: views stored by other users, and statements of the console.

DuckDB's own parser parses the text, and the result is checked against allow lists: one SELECT over tables and views of
the lake, with functions that compute values. So the text cannot read files, settings or variables of the process, or
other names.
"""

# Decisions: docs/decisions/0501, docs/decisions/0650

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import duckdb
from duckdb import DuckDBPyConnection

from moulin.errors import Unsupported
from moulin.model.names import AT
from moulin.model.view_history import Home, beside

Name = tuple[str, str]

_LAKE = "moulin"  # the catalog that lake.sql knows the lake by
_WRITTEN = """
SELECT_NODE SET_OPERATION_NODE RECURSIVE_CTE_NODE CTE_NODE
BASE_TABLE SUBQUERY JOIN TABLE_FUNCTION EXPRESSION_LIST EMPTY EMPTY_FROM PIVOT
ORDER_MODIFIER LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER DISTINCT_MODIFIER ORDER_DEFAULT ASCENDING DESCENDING
"""
_OVER_WINDOWS = """
cume_dist dense_rank first first_value lag last last_value lead nth_value ntile percent_rank rank rank_dense row_number
"""
_OF_THE_PROCESS = """
current_role current_schemas current_setting current_user getenv getvariable in_search_path session_user txid_current
user
"""
_KINDS: Final = frozenset(_WRITTEN.split())
"""Queries, what is in FROM, and what follows a query."""
_TYPE_INFO: Final = "_TYPE_INFO"
_TABLE_FUNCTIONS: Final = frozenset({"generate_series", "range", "unnest"})
_WINDOW_FUNCTIONS: Final = frozenset(_OVER_WINDOWS.split())
_REFUSED: Final = frozenset(_OF_THE_PROCESS.split())
_SCHEMAS: Final = frozenset({"", "main", "pg_catalog", "system"})
_FUNCTIONS: Final = (
    "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE internal "
    "AND function_type IN ('scalar', 'aggregate', 'macro') AND NOT starts_with(function_name, 'pg_') AND "
    "(NOT has_side_effects OR has_side_effects IS NULL OR "
    "function_name IN ('random', 'uuid', 'uuidv4', 'uuidv7', 'gen_random_uuid'))"
)


@dataclass(frozen=True, slots=True)
class Checked:
    """A text that may run, and the tables and views that it names, as they are spelled there."""

    text: str
    named: frozenset[Name]


def checked(
    connection: DuckDBPyConnection,
    text: str,
    home: Home,
    known: Collection[Name],
    *,
    what: str = "a view",
    version: int | None = None,
) -> Checked:
    """The text with the names in it in full; `known` are the tables and views of the lake, in lower case.

    With a version, tables are read at that one. Raises Unsupported, with a part of a sentence, for what the text, which
    is that of `what`, must not have.
    """
    text = text.strip().rstrip(";").strip()
    try:
        found = parsed(connection, text)
        if found.get("error"):
            raise Unsupported(f"its text is not a query that DuckDB can parse ({_reason(found.get('error_message'))})")
        if len(found["statements"]) != 1:
            raise Unsupported("its text is not a single query")
        at = None if version is None else _table_at(connection, version)
        check = _Check(home, known, functions(connection) | _TABLE_FUNCTIONS | _WINDOW_FUNCTIONS, what, at)
        check.walk(found["statements"], frozenset())
        check.put_version()
        if check.changed:
            text = _value(connection, "SELECT json_deserialize_sql(?)", json.dumps(found))
        return Checked(text, frozenset(check.named))
    except (duckdb.Error, ValueError, LookupError) as error:
        raise Unsupported(f"its text cannot be checked ({_reason(str(error))})") from None
    except RecursionError:
        raise Unsupported("its text is nested too deep") from None


def parsed(connection: DuckDBPyConnection, text: str) -> dict[str, Any]:
    """What DuckDB's parser makes of a text: `statements`, or `error`. Nothing is looked up."""
    found: dict[str, Any] = json.loads(_value(connection, "SELECT json_serialize_sql(?)", text))
    return found


def functions(connection: DuckDBPyConnection) -> frozenset[str]:
    """The functions that compute values, in lower case, but for those over windows alone."""
    return frozenset(name for (name,) in connection.execute(_FUNCTIONS).fetchall()) - _REFUSED


def all_functions() -> list[str]:
    """What a statement may call, in a DuckDB without anything added."""
    with duckdb.connect() as connection:
        return sorted(functions(connection) | _TABLE_FUNCTIONS | _WINDOW_FUNCTIONS)


def _table_at(connection: DuckDBPyConnection, version: int) -> str:
    """The tree of a table at a version, whose name is still to be put in."""
    found = parsed(connection, f"SELECT * FROM moulin_table('', version := {version:d})")
    return json.dumps(found["statements"][0]["node"]["from_table"])


class _Check:
    """Goes through the tree of a query, and puts names of the lake in full; and tables at a version, if there is one.

    REQUIRES: `at` is a tree of `_table_at`.
    """

    def __init__(
        self, home: Home, known: Collection[Name], functions: Collection[str], what: str, at: str | None
    ) -> None:
        self._home, self._known, self._functions, self._what, self._at = home, known, functions, what, at
        self._own = {name.lower() for name in (home.catalog, _LAKE) if name}
        self.changed = False
        self.named: set[Name] = set()
        self._found: list[tuple[dict[str, Any], str, str]] = []

    def walk(self, part: Any, ctes: frozenset[str]) -> None:
        """Check a part of the tree in which the names of these CTEs mean them."""
        if isinstance(part, list):
            for one in part:
                self.walk(one, ctes)
            return
        if not isinstance(part, dict):
            return
        if isinstance(part.get("cte_map"), dict):
            ctes = self._ctes(part["cte_map"]["map"], ctes)
        self._check(part, ctes)
        for key, inner in part.items():
            if key != "cte_map":
                self.walk(inner, ctes)

    def _ctes(self, entries: Any, ctes: frozenset[str]) -> frozenset[str]:
        """What the names of a WITH add: each is seen by those after it, and a recursive one by itself."""
        for entry in entries:
            name, query = entry["key"].lower(), entry["value"]
            recursive = query["query"]["node"]["type"] == "RECURSIVE_CTE_NODE"
            self.walk(query, ctes | {name} if recursive else ctes)
            ctes |= {name}
        return ctes

    def _check(self, part: dict[str, Any], ctes: frozenset[str]) -> None:
        kind, is_expression = part.get("type"), "class" in part
        if not is_expression and isinstance(kind, str) and not kind.endswith(_TYPE_INFO) and kind not in _KINDS:
            raise Unsupported(f"{self._what} cannot have {kind[:60]}")
        if is_expression and part["class"] == "PARAMETER":
            raise Unsupported(f"{self._what} has no parameters")
        if is_expression and "function_name" in part:
            self._check_function(part, self._functions)
        elif kind == "TABLE_FUNCTION" and not is_expression:
            self._check_function(part["function"], _TABLE_FUNCTIONS)
        elif kind == "BASE_TABLE" and not is_expression:
            self._name_table(part, ctes)

    def _check_function(self, call: Mapping[str, Any], allowed: Collection[str]) -> None:
        name = str(call["function_name"]).lower()
        if call.get("schema", "") not in _SCHEMAS or call.get("catalog", "") not in _SCHEMAS or name not in allowed:
            raise Unsupported(f"{self._what} cannot call {name[:60]}")

    def _name_table(self, part: dict[str, Any], ctes: frozenset[str]) -> None:
        catalog, schema, name = part["catalog_name"], part["schema_name"], part["table_name"]
        if part.get("at_clause"):
            raise Unsupported(f"{self._what} reads tables without AT")
        if not catalog and not schema and name.lower() in ctes:
            return
        if catalog and catalog.lower() not in self._own:
            raise Unsupported(f"it reads {catalog[:60]}.{schema[:60]}.{name[:60]}, which is not in the lake")
        full = beside(self._home.database, schema or self._home.database)
        if not full:
            raise Unsupported(f"it reads {name[:60]}: write tables as database.table")
        if (full.lower(), name.lower()) not in self._known:
            raise Unsupported(f"it reads {full[:60]}.{name[:60]}, which the lake does not have")
        self.named.add((full, name))
        if self._at is not None:
            self._found.append((part, full, name))
        elif catalog or full != schema:
            part["catalog_name"], part["schema_name"], self.changed = "", full, True

    def put_version(self) -> None:
        """Put tables at the version in place of the tables that were found. REQUIRES: the whole tree was checked."""
        for part, database, name in self._found:
            assert self._at is not None
            put = json.loads(self._at)
            stem, mark, branch = database.partition(AT)
            put["function"]["children"][0]["value"]["value"] = f"{stem}.{name}{mark}{branch}"
            kept: dict[str, Any] = {
                key: part[key] for key in ("column_name_alias", "sample", "query_location") if key in part
            }
            alias = part.get("alias") or name
            part.clear()
            part.update({**put, **kept, "alias": alias})
            self.changed = True


def _value(connection: DuckDBPyConnection, statement: str, parameter: str) -> str:
    row = connection.execute(statement, [parameter]).fetchone()
    assert row is not None
    return str(row[0])


def _reason(said: object) -> str:
    lines = str(said).splitlines() or ["no reason is given"]
    return lines[0][:200].rstrip(".!")
