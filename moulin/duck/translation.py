"""The query of a view for DuckDB: the one stored for DuckDB, or a translation of another; both are checked."""

# Decisions: docs/decisions/0276, docs/decisions/0501

from __future__ import annotations

from collections.abc import Collection

from duckdb import DuckDBPyConnection

from moulin.duck.checked import checked
from moulin.duck.columns import quoted, shown_type
from moulin.model.entities import ViewQuery
from moulin.model.view_history import Home
from moulin.model.view_texts import text_for

_DUCKDB = "duckdb"


def translated(
    connection: DuckDBPyConnection, database: str, query: ViewQuery, known: Collection[tuple[str, str]]
) -> str:
    """A SELECT with the columns that are stored with a view of `database`, in their types.

    It reads `known` names alone, which are in lower case.

    Raises Unsupported, with a part of a sentence, when there is none.
    """
    home = Home.of(database, query)
    text = checked(connection, text_for(query, _DUCKDB), home, known).text
    columns = ", ".join(
        f"CAST({quoted(field.name)} AS {shown_type(field.field_type)}) AS {quoted(field.name)}"
        for field in query.schema.fields
    )
    return f"SELECT {columns} FROM (\n{text}\n)"
