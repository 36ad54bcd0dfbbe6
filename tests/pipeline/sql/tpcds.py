"""TPC-DS: rows and queries from DuckDB's extension, the texts in Spark's dialect.

Some conditions of the texts choose values that so few rows do not have. `_FREED` names the columns of such conditions;
the texts here leave them out, so that the queries find something.
"""

# Decisions: docs/decisions/0280

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

_SCALE = 0.01  # with less, the extension does not come back
_FREED = {
    3: ["i_manufact_id"],
    4: ["dyear"],
    8: ["ca_zip", _COUNT := "count"],
    10: ["d_year"],
    11: ["dyear"],
    13: ["d_year"],
    19: ["d_year"],
    23: [_COUNT],
    25: ["d_year"],
    30: ["ca_state"],
    31: ["d_year"],
    32: ["i_manufact_id"],
    37: ["i_manufact_id"],
    39: ["d_moy"],
    41: ["i_manufact_id"],
    49: ["d_moy"],
    64: ["i_current_price"],
    73: ["cnt"],
    74: ["year_"],
    82: ["i_manufact_id"],
    83: ["d_date"],
    85: ["ws_net_profit", "ws_sales_price"],
    90: ["wp_char_count"],
    91: ["hd_buy_potential"],
    92: ["d_date"],
    93: ["r_reason_desc"],
}
EMPTY = frozenset({24, 44, 54, 58, 65})
"""Queries that find nothing in so few rows, whatever is left out of them."""


@dataclass(frozen=True)
class Query:
    """A query whose order is total, so that its rows are the same however it is computed."""

    tree: exp.Query

    @property
    def tables(self) -> set[str]:
        return {table.name for table in self._tables(self.tree)}

    def text(self, columns: int, database: str | None = None) -> str:
        """The text in Spark's dialect, over tables of the database.

        The first `columns` columns of the result decide on the order of rows that the text leaves open.
        """
        tree = self.tree.copy()
        for table in self._tables(tree):
            if database is not None:
                table.set("alias", table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name)))
                table.set("db", exp.to_identifier(database))
        if columns:
            tree = tree.order_by(*(str(place) for place in range(1, columns + 1)), dialect="duckdb")
        return tree.sql("spark")

    def _tables(self, tree: exp.Expression) -> Iterator[exp.Table]:
        defined = {cte.alias for cte in tree.find_all(exp.CTE)}
        return (table for table in tree.find_all(exp.Table) if table.name not in defined)


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """DuckDB with the rows of TPC-DS."""
    spec = importlib.util.find_spec("duckdb_extension_tpcds")
    assert spec is not None
    assert spec.origin is not None
    (file,) = Path(spec.origin).parent.rglob("*.duckdb_extension")
    found = duckdb.connect(config={"threads": 1})
    found.execute(f"load '{file}'")
    found.execute(f"call dsdgen(sf = {_SCALE})")
    return found


def rows_of(table: str) -> pa.Table:
    return connection().execute(f"from {table}").to_arrow_table()


def query(number: int) -> Query:
    (found,) = connection().execute("select query from tpcds_queries() where query_nr = ?", [number]).fetchall()
    tree = sqlglot.parse_one(found[0], read="duckdb")
    freed = _FREED.get(number, ())
    tree = tree.transform(lambda node: exp.true() if _chooses(node, freed) else node)
    assert isinstance(tree, exp.Query)
    return Query(tree)


def _chooses(node: exp.Expression, columns: Collection[str]) -> bool:
    """Whether this is a condition that compares one of the columns with constants."""
    match node:
        case exp.Between():
            given = [node.args["low"], node.args["high"]]
        case exp.In() if node.expressions:
            given = node.expressions
        case exp.EQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE() | exp.Like():
            given = [node.expression]
        case _:
            return False
    if any(value.find(exp.Column, exp.Select, exp.AggFunc) for value in given):
        return False
    if isinstance(node.this, exp.Count):
        return _COUNT in columns
    compared = [column.name for column in node.this.find_all(exp.Column)]
    return len(compared) == 1 and compared[0] in columns and node.this.find(exp.Select) is None
