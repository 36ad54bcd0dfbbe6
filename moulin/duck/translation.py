"""The query of a view as a text for DuckDB: the one that is stored for it, or Spark's, translated."""

# Decisions: docs/decisions/0276

from __future__ import annotations

from sqlglot import ErrorLevel, exp, parse
from sqlglot.errors import SqlglotError

from moulin.duck.columns import quoted, shown_type
from moulin.errors import Unsupported
from moulin.model.entities import ViewQuery
from moulin.model.schema.values import Schema

_DUCKDB, _SPARK = "duckdb", "spark"


def translated(query: ViewQuery) -> str:
    """A SELECT with the columns that are stored with the view, in their types.

    Raises Unsupported, with a part of a sentence, when there is none.
    """
    text = query.sql(_DUCKDB)
    if text is None:
        spark = query.sql(_SPARK)
        if spark is None:
            raise Unsupported("it has no text for Spark or DuckDB")
        text = _from_spark(spark, query.schema)
    columns = ", ".join(
        f"CAST({quoted(field.name)} AS {shown_type(field.field_type)}) AS {quoted(field.name)}"
        for field in query.schema.fields
    )
    return f"SELECT {columns} FROM (\n{text}\n)"


def _from_spark(text: str, schema: Schema) -> str:
    try:
        trees = parse(text, read=_SPARK)
        if len(trees) != 1 or not isinstance(trees[0], exp.Query):
            raise Unsupported("its text is not one query")
        return str(_named(trees[0], schema).sql(_DUCKDB, unsupported_level=ErrorLevel.RAISE))
    except (SqlglotError, RecursionError) as error:
        said = str(error).splitlines() or ["no reason is given"]
        raise Unsupported(f"its text cannot be translated from Spark's SQL ({said[0].rstrip('.')})") from None


def _named(tree: exp.Query, schema: Schema) -> exp.Query:
    """The query with the names of the view for columns to which every engine gives a name of its own."""
    shown = tree.selects
    if len(shown) == len(schema.fields) and not tree.is_star:
        for column, field in zip(shown, schema.fields, strict=True):
            if not isinstance(column, exp.Alias | exp.Column):
                column.replace(exp.alias_(column.copy(), field.name, quoted=True))
    return tree
