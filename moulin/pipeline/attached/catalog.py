"""`spark.catalog`: databases and tables of the lake beside Spark's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.catalog import Catalog, Column, Database, Table

from moulin.model.names import matches_pattern, quote
from moulin.pipeline.attached.lakes import Attached, lake_name
from moulin.pipeline.sql.catalyst import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LakeCatalog(Catalog):
    """A database of the lake goes before one of Spark's of the same name, as it does in SQL."""

    def __init__(self, spark: SparkSession, lake: Attached) -> None:
        super().__init__(spark)
        self._moulin = lake

    def listDatabases(self, pattern: str | None = None) -> list[Database]:  # noqa: N802
        names = sorted(one.name for one in self._moulin.lake.databases())
        own = [_database(name) for name in names if matches_pattern(name, pattern)]
        others = super().listDatabases(pattern)
        return [*own, *(one for one in others if one.name not in names)]

    def getDatabase(self, dbName: str) -> Database:  # noqa: N802, N803
        return _database(dbName) if self._moulin.has_database(dbName) else super().getDatabase(dbName)

    def databaseExists(self, dbName: str) -> bool:  # noqa: N802, N803
        return self._moulin.has_database(dbName) or super().databaseExists(dbName)

    def listTables(self, dbName: str | None = None, pattern: str | None = None) -> list[Table]:  # noqa: N802, N803
        if dbName is None or not self._moulin.has_database(dbName):
            return super().listTables(dbName, pattern)
        return [one for one in self._tables(dbName) if matches_pattern(one.name, pattern)]

    def tableExists(self, tableName: str, dbName: str | None = None) -> bool:  # noqa: N802, N803
        name = self._name(tableName, dbName)
        return super().tableExists(tableName, dbName) if name is None else self._find(*name) is not None

    def getTable(self, tableName: str) -> Table:  # noqa: N802, N803
        name = self._name(tableName, None)
        found = None if name is None else self._find(*name)
        return super().getTable(tableName) if found is None else found

    def listColumns(self, tableName: str, dbName: str | None = None) -> list[Column]:  # noqa: N802, N803
        name = self._name(tableName, dbName)
        if name is None:
            return super().listColumns(tableName, dbName)
        fields = self._sparkSession.table(quote(*name)).schema.fields
        return [
            Column(one.name, None, one.dataType.simpleString(), one.nullable, False, False, False) for one in fields
        ]

    def _name(self, table: str, database: str | None) -> tuple[str, str] | None:
        return lake_name(self._moulin, table if database is None else f"{quote(database)}.{quote(table)}")

    def _tables(self, database: str) -> list[Table]:
        lake: Any = self._moulin.lake
        tables = [Table(one.name, CATALOG, [database], None, "MANAGED", False) for one in lake.tables(database)]
        views = [Table(one.name, CATALOG, [database], None, "VIEW", False) for one in lake.views(database)]
        return sorted([*tables, *views], key=lambda one: one.name)

    def _find(self, database: str, name: str) -> Table | None:
        return next((one for one in self._tables(database) if one.name == name), None)


def _database(name: str) -> Database:
    return Database(name, CATALOG, None, "")
