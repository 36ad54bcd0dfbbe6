"""`spark.catalog`: databases and tables of the lake beside Spark's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.catalog import Catalog, Column, Database, Table

from moulin.errors import Unsupported
from moulin.model.names import matches_pattern, quote
from moulin.pipeline.attached.lakes import Attached, lake_name
from moulin.pipeline.sql.catalyst import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LakeCatalog(Catalog):
    """A database of the lake takes precedence over one of Spark with the same name, as in SQL."""

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

    def listViews(self, dbName: str | None = None, pattern: str | None = None) -> list[Table]:  # noqa: N802, N803
        if dbName is None or not self._moulin.has_database(dbName):
            return super().listViews(dbName, pattern)
        return [one for one in self.listTables(dbName, pattern) if one.tableType == "VIEW"]

    def getTableProperties(self, tableName: str) -> dict[str, str]:  # noqa: N802, N803
        name = self._name(tableName, None)
        if name is None:
            return super().getTableProperties(tableName)
        return {row.key: row.value for row in self._run("SHOW TBLPROPERTIES", name).collect()}

    def getCreateTableString(self, tableName: str, asSerde: bool = False) -> str:  # noqa: N802, N803
        name = self._name(tableName, None)
        if name is None:
            return super().getCreateTableString(tableName, asSerde)
        return str(self._run("SHOW CREATE TABLE", name).collect()[0][0])

    def dropTable(self, tableName: str, ifExists: bool = False, purge: bool = False) -> None:  # noqa: N802, N803
        name = self._name(tableName, None)
        if name is None:
            super().dropTable(tableName, ifExists, purge)
        else:
            self._run(f"DROP TABLE{' IF EXISTS' if ifExists else ''}", name, " PURGE" if purge else "")

    def dropView(self, viewName: str, ifExists: bool = False) -> None:  # noqa: N802, N803
        name = self._name(viewName, None)
        if name is None:
            super().dropView(viewName, ifExists)
        else:
            self._run(f"DROP VIEW{' IF EXISTS' if ifExists else ''}", name)

    def truncateTable(self, tableName: str) -> None:  # noqa: N802, N803
        name = self._name(tableName, None)
        if name is None:
            super().truncateTable(tableName)
        else:
            self._run("TRUNCATE TABLE", name)

    def refreshTable(self, tableName: str) -> None:  # noqa: N802, N803
        """Queries see the newest version of a table of the lake in any case."""
        if self._name(tableName, None) is None:
            super().refreshTable(tableName)

    def isCached(self, tableName: str) -> bool:  # noqa: N802, N803
        return self._name(tableName, None) is None and super().isCached(tableName)

    def cacheTable(self, tableName: str, storageLevel: Any = None) -> None:  # noqa: N802, N803
        self._refuse(tableName, "keep its rows with spark.table(name).cache()")
        super().cacheTable(tableName, storageLevel)

    def uncacheTable(self, tableName: str) -> None:  # noqa: N802, N803
        self._refuse(tableName, "call unpersist() on the DataFrame that was cached")
        super().uncacheTable(tableName)

    def recoverPartitions(self, tableName: str) -> None:  # noqa: N802, N803
        self._refuse(tableName, "its partitions are always known, so remove this")
        super().recoverPartitions(tableName)

    def analyzeTable(self, tableName: str, noScan: bool = False) -> None:  # noqa: N802, N803
        self._refuse(tableName, "statistics are written with its rows, so remove this")
        super().analyzeTable(tableName, noScan)

    def listPartitions(self, tableName: str) -> Any:  # noqa: N802, N803
        self._refuse(tableName, 'ask spark.table("database.table.partitions")')
        return super().listPartitions(tableName)

    def createTable(self, tableName: str, *args: Any, **kwargs: Any) -> DataFrame:  # noqa: N802, N803
        self._refuse(tableName, "use spark.sql('CREATE TABLE ...') or frame.writeTo(name).create()")
        return super().createTable(tableName, *args, **kwargs)

    def createExternalTable(self, tableName: str, *args: Any, **kwargs: Any) -> DataFrame:  # noqa: N802, N803
        self._refuse(tableName, "external files cannot be used as tables: load them with table.backfill(folder)")
        return super().createExternalTable(tableName, *args, **kwargs)

    def setCurrentDatabase(self, dbName: str) -> None:  # noqa: N802, N803
        if self._moulin.has_database(dbName):
            raise Unsupported(f"{dbName!r} is a database of the lake: write tables as {dbName}.table.")
        super().setCurrentDatabase(dbName)

    def dropDatabase(self, dbName: str, ifExists: bool = False, cascade: bool = False) -> None:  # noqa: N802, N803
        if self._moulin.has_database(dbName):
            self._sparkSession.sql(f"DROP DATABASE {quote(dbName)}{' CASCADE' if cascade else ''}")
        else:
            super().dropDatabase(dbName, ifExists, cascade)

    def _run(self, statement: str, name: tuple[str, str], after: str = "") -> DataFrame:
        return self._sparkSession.sql(f"{statement} {quote(*name)}{after}")

    def _refuse(self, table: str, advice: str) -> None:
        if self._name(table, None) is not None:
            raise Unsupported(f"{table} is a table of the lake: {advice}.")

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
