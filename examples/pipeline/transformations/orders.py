"""CSV files of a folder, cleaned, into shop.orders: a temporary view, a sink and the flow between them."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()

dp.create_sink("lake_orders", "moulin", {"lake": os.environ["MOULIN_LAKE"], "path": "shop.orders"})


@dp.temporary_view
def arrived() -> DataFrame:
    files = spark.readStream.schema("id bigint, amount double").option("header", "true")
    return files.csv(os.environ["INBOX"])


@dp.append_flow(target="lake_orders")
def clean_orders() -> DataFrame:
    return spark.readStream.table("arrived").where("amount > 0")
