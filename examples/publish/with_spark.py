"""Write to a branch with Spark and Iceberg's runtime, audit it, and publish it.

python with_spark.py ADDRESS PACKAGE [IVY]: the package is the runtime for this Spark, such as
org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0, and IVY a folder for what it downloads.
"""

from __future__ import annotations

import json
import sys
import urllib.request

from pyspark.sql import SparkSession

address, package, *ivy = sys.argv[1:]
settings: dict[str, bool | float | int | str | None] = {
    "spark.jars.packages": package,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
if ivy:
    settings["spark.jars.ivy"] = ivy[0]
for name, warehouse in (("nightly", "lake@nightly"), ("lake", "lake")):
    settings[f"spark.sql.catalog.{name}"] = "org.apache.iceberg.spark.SparkCatalog"
    settings[f"spark.sql.catalog.{name}.type"] = "rest"
    settings[f"spark.sql.catalog.{name}.uri"] = address
    settings[f"spark.sql.catalog.{name}.warehouse"] = warehouse
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()

spark.sql("INSERT INTO nightly.shop.orders VALUES (100, 7.0D), (101, 8.0D)")

audited = spark.table("nightly.shop.orders").where("amount < 0").count()
if audited:
    raise SystemExit(f"{audited} orders have a negative amount: nothing is published.")

request = urllib.request.Request(f"{address}/v1/@nightly/publish", b"{}", {"Content-Type": "application/json"})
with urllib.request.urlopen(request) as answer:
    published = json.load(answer)

print(f"version {published['version']} has {spark.table('lake.shop.orders').count()} orders")
spark.stop()
