"""Texts of views, checked before DuckDB sees them: whoever may write to the catalog stores them, and others run them.

DuckDB's own parser reads a text, and what it found is held against lists of what is allowed: one SELECT, over tables
and views of the lake, with functions that compute values. So no text reads files, settings or variables of the process
that runs it, or a name that means something else there.
"""

# Decisions: docs/decisions/0501

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

import duckdb
from duckdb import DuckDBPyConnection

from moulin.errors import Unsupported
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


def checked(connection: DuckDBPyConnection, text: str, home: Home, known: Collection[Name]) -> str:
    """The text with the names in it in full; `known` are the tables and views of the lake, in lower case.

    Raises Unsupported, with a part of a sentence, for what a view must not have.
    """
    text = text.strip().rstrip(";").strip()
    try:
        found = json.loads(_value(connection, "SELECT json_serialize_sql(?)", text))
        if found.get("error"):
            raise Unsupported(f"its text is not one query that DuckDB knows ({_reason(found.get('error_message'))})")
        if len(found["statements"]) != 1:
            raise Unsupported("its text is not one query")
        functions = {name for (name,) in connection.execute(_FUNCTIONS).fetchall()} - _REFUSED
        check = _Check(home, known, functions | _TABLE_FUNCTIONS | _WINDOW_FUNCTIONS)
        check.walk(found["statements"], frozenset())
        return _value(connection, "SELECT json_deserialize_sql(?)", json.dumps(found)) if check.changed else text
    except (duckdb.Error, ValueError, LookupError) as error:
        raise Unsupported(f"its text cannot be checked ({_reason(str(error))})") from None
    except RecursionError:
        raise Unsupported("its text is nested too deep") from None


class _Check:
    """Goes through the tree of a query, and puts names of the lake in full."""

    def __init__(self, home: Home, known: Collection[Name], functions: Collection[str]) -> None:
        self._home, self._known, self._functions = home, known, functions
        self._own = {name.lower() for name in (home.catalog, _LAKE) if name}
        self.changed = False

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
            raise Unsupported(f"a view cannot have {kind[:60]}")
        if is_expression and part["class"] == "PARAMETER":
            raise Unsupported("a view has no parameters")
        if is_expression and "function_name" in part:
            self._check_function(part, self._functions)
        elif kind == "TABLE_FUNCTION" and not is_expression:
            self._check_function(part["function"], _TABLE_FUNCTIONS)
        elif kind == "BASE_TABLE" and not is_expression:
            self._name_table(part, ctes)

    def _check_function(self, call: Mapping[str, Any], allowed: Collection[str]) -> None:
        name = str(call["function_name"]).lower()
        if call.get("schema", "") not in _SCHEMAS or call.get("catalog", "") not in _SCHEMAS or name not in allowed:
            raise Unsupported(f"a view cannot call {name[:60]}")

    def _name_table(self, part: dict[str, Any], ctes: frozenset[str]) -> None:
        catalog, schema, name = part["catalog_name"], part["schema_name"], part["table_name"]
        if part.get("at_clause"):
            raise Unsupported("a view reads tables as they are, without AT")
        if not catalog and not schema and name.lower() in ctes:
            return
        if catalog and catalog.lower() not in self._own:
            raise Unsupported(f"it reads {catalog[:60]}.{schema[:60]}.{name[:60]}, which is not of the lake")
        full = beside(self._home.database, schema or self._home.database)
        if (full.lower(), name.lower()) not in self._known:
            raise Unsupported(f"it reads {full[:60]}.{name[:60]}, which the lake does not have")
        if catalog or full != schema:
            part["catalog_name"], part["schema_name"], self.changed = "", full, True


def _value(connection: DuckDBPyConnection, statement: str, parameter: str) -> str:
    row = connection.execute(statement, [parameter]).fetchone()
    assert row is not None
    return str(row[0])


def _reason(said: object) -> str:
    lines = str(said).splitlines() or ["no reason is given"]
    return lines[0][:200].rstrip(".!")
