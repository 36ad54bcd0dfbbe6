"""LakeQueries: the methods of `Lake` that run SQL on Spark and in DuckDB, and transactions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moulin.deprecation import warn_renamed
from moulin.errors import FailedPrecondition
from moulin.lake.handle import LakeHandle

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame, SparkSession

    from moulin.table.ports import Spark
    from moulin.table.transaction import Transaction


class LakeQueries(LakeHandle):
    """SQL and transactions over all tables of the lake."""

    def transaction(self) -> Transaction:
        """Start a transaction: at the end of its `with` block, its changes to all tables are committed as one version.

        >>> _ = lake.create_table("shop.log", [("what", "string")])
        >>> with lake.transaction() as tx:
        ...     _ = tx.table("shop.orders").delete_where("id = 1")
        ...     _ = tx.table("shop.log").append([{"what": "order 1 was deleted"}])
        >>> lake.table("shop.orders").version == lake.table("shop.log").version
        True
        """
        if self.read_only:
            raise FailedPrecondition(
                f"The lake in {self.store.uri} was opened read-only: open it by the address of its catalog to write."
            )
        self._open_catalog()
        from moulin.table.transaction import Transaction

        return Transaction(self.context, self._resolve)

    def sql(
        self,
        text: str,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        fresh: bool = True,
        safe: bool = False,
    ) -> DataFrame:
        """Run a Spark SQL statement over the tables and views of the lake, and return its result as a DataFrame.

        A query returns its rows. INSERT, UPDATE, DELETE, MERGE and TRUNCATE run at once, are one version each, and
        return one row with the numbers of changed rows.

        `database.table` and `moulin.database.table` are tables of the lake, with the same meaning as in Spark.
        One-part names are temporary views of Spark. `args` are parameter values: a dict for `:name`, a list
        for `?`. With `fresh`, the result includes records that were acknowledged but not yet committed.

        Use `safe` for text from users who may read the tables of the lake and nothing else. It
        can use only tables of the lake, and cannot run programs or access files, temporary views, settings or the
        environment. Everything not on the allow list raises PermissionDenied. Time and rows are not
        limited.

        >>> lake.sql("select customer, amount * 2 as twice from shop.orders where id = :id", {"id": 1}).collect()
        [Row(customer='ann', twice=19.0)]
        >>> lake.sql("update shop.orders set amount = 10 where id = 1").first()["num_updated_rows"]
        1
        """
        self._open_catalog()
        return self.context.spark().sql(text, args, fresh=fresh, safe=safe)

    def spark(self) -> SparkSession:
        """A Spark session with the lake attached: `spark.sql`, `spark.table` and writers can use the lake's tables.

        Put rows are committed first, so that Spark sees them.

        >>> spark = lake.spark()
        >>> spark.table("shop.orders").count()
        1
        """
        self._open_catalog()
        session = self.context.spark().attached()
        self._flush()
        return session

    def duckdb(
        self, connection: DuckDBPyConnection | None = None, *, branches: Collection[str] = ()
    ) -> DuckDBPyConnection:
        """A DuckDB connection in which every table and view of the lake is available as `database.table`. Needs no
        Java.

        It shows the version of this call, including earlier puts, until `lake.duckdb(connection)` moves it to
        the newest one. `moulin_table('shop.orders', version := 12)` reads an older version, and so does `as_of :=
        '2026-01-31 12:00'`. A statement opens only the files that may match its constants; after `SET
        VARIABLE moulin_pruning = false`, all files. The connection cannot change tables of the lake; tables that it
        creates are local. The versions that it shows are pinned while it is open, and it is closed with the lake.
        Tables of `branches` are available as "shop@exp".orders, and moulin_table('shop.orders@exp') reads any branch.
        Its SQL has the rights of this process, including files and network: do not run untrusted SQL. Needs the extra
        `duckdb`.

        >>> lake.duckdb().sql("select customer, amount from shop.orders").fetchall()
        [('ann', 9.5)]
        """
        self._open_catalog()
        with self._lock:
            if self._duck is None:
                if self._make_duck is None:
                    raise FailedPrecondition("This lake was opened without DuckDB; open it with moulin.connect.")
                self._duck = self._make_duck(self)
        return self._duck.connect(connection, branches)

    def attach(self, spark: SparkSession) -> SparkSession:
        """Return a session like `spark` that can also use the tables of this lake. `spark` itself is not changed.

        `spark.sql`, `spark.table`, `spark.read.table` and `spark.catalog` find `database.table` in the lake if it has
        the database, and writers of DataFrames that came from this session (`writeTo`, `saveAsTable`, `insertInto`)
        write there. All other names belong to Spark.

        >>> from pyspark.sql import SparkSession
        >>> spark = lake.attach(SparkSession.getActiveSession())
        >>> spark.sql("select sum(amount) as total from shop.orders").first()["total"]
        9.5
        """
        self._open_catalog()
        return self.context.spark().attached(spark)

    def engine(self) -> Spark:
        """Deprecated: use `sql` and `spark`."""
        warn_renamed("Lake.engine()", "Lake.spark() and Lake.sql()")
        self._open_catalog()
        return self.context.spark()


__all__ = ["LakeQueries"]
