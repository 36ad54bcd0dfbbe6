"""Spark with the Iceberg runtime as a client of the REST catalog: `python spark_runtime.py ADDRESS PACKAGE IVY`.

Runs in an environment of its own, with the Spark that the runtime is made for. Prints JSON: a list of rows for each
statement, and why each of REFUSED was. Ends with UNREACHABLE when the package cannot be had.
"""

from __future__ import annotations

import json
import sys
from typing import Any

UNREACHABLE = 3
STATEMENTS = (
    "SELECT id, region FROM ice.shop.orders ORDER BY id",
    "INSERT INTO ice.shop.plain VALUES (100, 'x'), (101, 'y')",
    "CREATE TABLE ice.shop.made (id BIGINT, day DATE) USING iceberg PARTITIONED BY (days(day)) "
    "TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read')",
    "INSERT INTO ice.shop.made SELECT id, date_add(DATE '2024-01-01', CAST(id % 3 AS INT)) FROM range(9)",
    "DELETE FROM ice.shop.made WHERE id IN (1, 4)",
    "UPDATE ice.shop.made SET id = id + 100 WHERE id = 2",
    "MERGE INTO ice.shop.made t "
    "USING (SELECT 5 AS id, DATE '2024-02-02' AS day UNION ALL SELECT 50, DATE '2024-02-03') s "
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET day = s.day WHEN NOT MATCHED THEN INSERT *",
    "SELECT id, CAST(day AS STRING) FROM ice.shop.made ORDER BY id",
    "ALTER TABLE ice.shop.plain CREATE TAG before",
    "DELETE FROM ice.shop.plain WHERE id = 1",
    "SELECT id FROM ice.shop.plain VERSION AS OF 'before' ORDER BY id",
    "ALTER TABLE ice.shop.plain ADD COLUMN extra INT",
    "ALTER TABLE ice.shop.plain WRITE ORDERED BY id DESC",
    "INSERT INTO ice.shop.plain VALUES (7, 'z', 1), (9, 'z', 2)",
    "SELECT * FROM ice.shop.plain ORDER BY id",
    "SELECT count(*) > 0 FROM ice.shop.plain.snapshots",
    "USE ice.shop",
    "CREATE VIEW big (n COMMENT 'a number', region) COMMENT 'large ones' TBLPROPERTIES ('team' = 'ann') "
    "AS SELECT id, region FROM orders WHERE id > 5",
    "SELECT n FROM big ORDER BY n",
    "CREATE OR REPLACE VIEW big AS SELECT id AS n, region FROM shop.orders WHERE id > 6",
    "SELECT n FROM ice.shop.big ORDER BY n",
    "ALTER VIEW big RENAME TO bigger",
    "ALTER VIEW bigger SET TBLPROPERTIES ('team' = 'bob')",
    "ALTER TABLE plain CREATE BRANCH audit",
    "INSERT INTO plain VALUES (11, 'y', 3)",
    "CALL ice.system.fast_forward('shop.plain', 'audit', 'main')",
    "SELECT count(*) FROM plain VERSION AS OF 'audit'",
    "CREATE NAMESPACE ice.a",
    "CREATE NAMESPACE ice.a.b",
    "CREATE TABLE ice.a.b.t USING iceberg AS SELECT 1L AS id",
    "INSERT INTO ice.a.b.t VALUES (2)",
    "INSERT INTO ice.a.b.t VALUES (3)",
    "CALL ice.system.rewrite_data_files(table => 'a.b.t', options => map('min-input-files', '2'))",
    "CALL ice.system.rewrite_manifests('a.b.t')",
    "CALL ice.system.rewrite_position_delete_files('shop.made')",
    "DELETE FROM ice.a.b.t WHERE id = 2",
    "SELECT id FROM ice.a.b.t ORDER BY id",
)
REFUSED = (
    "CALL ice.system.expire_snapshots(table => 'a.b.t', older_than => TIMESTAMP '2100-01-01 00:00:00')",
    "CALL ice.system.remove_orphan_files(table => 'a.b.t', older_than => TIMESTAMP '2024-01-01 00:00:00')",
    "DROP TABLE ice.a.b.t PURGE",
    "CREATE TABLE ice.a.b.u (id BIGINT) USING iceberg LOCATION 'file:///nowhere/u'",
)


def main(address: str, package: str, ivy: str) -> None:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars.packages": package,
        "spark.jars.ivy": ivy,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "rest",
        "spark.sql.catalog.ice.uri": address,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    builder: Any = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as error:  # the launcher ended: it fetches packages before it starts anything
        sys.stderr.write(f"the package {package} cannot be had ({' '.join(str(error).split())[:200]})\n")
        raise SystemExit(UNREACHABLE) from None
    answers = [[list(row) for row in spark.sql(text).collect()] for text in STATEMENTS]
    sys.stdout.write(json.dumps([*answers, *(refusal(spark, text) for text in REFUSED)]) + "\n")
    spark.stop()


def refusal(spark: Any, text: str) -> str:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        spark.sql(text).collect()
    except (Py4JJavaError, PySparkException) as error:
        return str(error)[:1000]
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
