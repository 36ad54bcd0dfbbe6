"""Catalog requests of clients (`spark.catalog`), answered from the lake, with the same column names as in Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyspark.sql.connect.proto as pb
from pyspark.sql import DataFrame

from moulin.errors import InvalidInput, NotFound
from moulin.lake import Lake
from moulin.model.names import full_name, matches_pattern, parse_table_name, quote
from moulin.pipeline.sql.catalyst import CATALOG
from moulin.pipeline.sql.safe import SafeSql

_TABLE = (
    "name string, catalog string, namespace array<string>, description string, tableType string, isTemporary boolean"
)
_DATABASE = "name string, catalog string, description string, locationUri string"
_COLUMN = (
    "name string, description string, dataType string, nullable boolean, isPartition boolean, isBucket boolean, "
    "isCluster boolean"
)
_NEEDLESS_QUOTES = re.compile("`([^`.]*)`")
_NO_DATABASE = "default"  # where names of one part are looked up: views, and never tables


class ConnectCatalog:
    """The catalog of one client."""

    def __init__(self, lake: Lake, guard: SafeSql, columns: Callable[[str], Any]) -> None:
        """`columns` gives the schema of the table or view with a name that is written as in SQL."""
        self._lake, self._guard, self._columns = lake, guard, columns

    def __call__(self, message: pb.Catalog) -> DataFrame:
        """REQUIRES: the message was checked."""
        kind = str(message.WhichOneof("cat_type"))
        return _ANSWERS[kind](self, getattr(message, kind))

    def _frame(self, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
        return self._guard.local_frame(list(rows), schema)

    def _value(self, value: Any, kind: str) -> DataFrame:
        return self._frame([(value,)], f"value {kind}")

    def _database_names(self) -> list[str]:
        return sorted(database.name for database in self._lake.databases())

    def _databases(self, message: pb.ListDatabases) -> DataFrame:
        names = [name for name in self._database_names() if _matches(name, message)]
        return self._frame([(name, CATALOG, None, None) for name in names], _DATABASE)

    def _database(self, message: pb.GetDatabase) -> DataFrame:
        if message.db_name not in self._database_names():
            raise NotFound(f"There is no database {message.db_name!r}.")
        return self._frame([(message.db_name, CATALOG, None, None)], _DATABASE)

    def _tables(self, message: pb.ListTables) -> DataFrame:
        return self._frame([row for row in self._rows(message, tables=True) if _matches(row[0], message)], _TABLE)

    def _views(self, message: pb.ListViews) -> DataFrame:
        return self._frame([row for row in self._rows(message, tables=False) if _matches(row[0], message)], _TABLE)

    def _rows(self, message: Any, *, tables: bool) -> list[tuple[Any, ...]]:
        database = message.db_name if message.HasField("db_name") else _NO_DATABASE
        found: list[tuple[Any, ...]] = []
        if database != _NO_DATABASE or database in self._database_names():
            here = [database]
            if tables:
                found += [(one.name, CATALOG, here, None, "MANAGED", False) for one in self._lake.tables(database)]
            found += [(one.name, CATALOG, here, None, "VIEW", False) for one in self._lake.views(database)]
        found += [(name, None, [], None, "TEMPORARY", True) for name in self._guard.view_names()]
        return sorted(found)

    def _table(self, message: pb.GetTable) -> DataFrame:
        found = self._find(message)
        if found is None:
            raise NotFound(f"There is no table or view {_full_name(message)}.")
        return self._frame([found], _TABLE)

    def _find(self, message: Any) -> tuple[Any, ...] | None:
        name = _full_name(message)
        if name in self._guard.view_names():
            return name, None, [], None, "TEMPORARY", True
        try:
            database, table = parse_table_name(name.removeprefix(f"{CATALOG}."))
            rows = [
                *((one.name, CATALOG, [database], None, "MANAGED", False) for one in self._lake.tables(database)),
                *((one.name, CATALOG, [database], None, "VIEW", False) for one in self._lake.views(database)),
            ]
        except (InvalidInput, NotFound):
            return None
        return next((row for row in rows if row[0] == table), None)

    def _table_columns(self, message: pb.ListColumns) -> DataFrame:
        if self._find(message) is None:
            raise NotFound(f"There is no table or view {_full_name(message)}.")
        fields = self._columns(quote(*parse_table_name(_full_name(message).removeprefix(f"{CATALOG}.")))).fields
        rows = [(one.name, None, one.dataType.simpleString(), one.nullable, False, False, False) for one in fields]
        return self._frame(rows, _COLUMN)

    def _catalogs(self, message: pb.ListCatalogs) -> DataFrame:
        rows = [(CATALOG, None)] if _matches(CATALOG, message) else []
        return self._frame(rows, "name string, description string")

    def _set_catalog(self, message: pb.SetCurrentCatalog) -> DataFrame:
        if message.catalog_name != CATALOG:
            raise NotFound(f"There is no catalog {message.catalog_name!r}: the lake is in {CATALOG!r}.")
        return self._frame([], "value string")


def _full_name(message: Any) -> str:
    if message.HasField("db_name"):
        return full_name(message.db_name, message.table_name.replace("`", ""))
    return _NEEDLESS_QUOTES.sub(r"\1", message.table_name)


def _matches(name: str, message: Any) -> bool:
    return matches_pattern(name, message.pattern if message.HasField("pattern") else None)


_ANSWERS: dict[str, Callable[[ConnectCatalog, Any], DataFrame]] = {
    "current_catalog": lambda self, message: self._value(CATALOG, "string"),
    "current_database": lambda self, message: self._value(_NO_DATABASE, "string"),
    "set_current_catalog": ConnectCatalog._set_catalog,
    "list_catalogs": ConnectCatalog._catalogs,
    "list_databases": ConnectCatalog._databases,
    "get_database": ConnectCatalog._database,
    "database_exists": lambda self, message: self._value(message.db_name in self._database_names(), "boolean"),
    "list_tables": ConnectCatalog._tables,
    "list_views": ConnectCatalog._views,
    "get_table": ConnectCatalog._table,
    "table_exists": lambda self, message: self._value(self._find(message) is not None, "boolean"),
    "list_columns": ConnectCatalog._table_columns,
    "drop_temp_view": lambda self, message: self._value(self._guard.drop_view(message.view_name), "boolean"),
}
