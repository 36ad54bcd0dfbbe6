"""A Spark session that knows a lake: `lake.attach(spark)` and `lake.spark()`.

PySpark has no catalogs in Python, so that names are told apart before Spark sees them: `session` does this for SQL,
`readers` for tables that are read, `catalog` for what is asked about them, `writers` for DataFrames that are written.
All of them are PySpark's own classes with a few methods replaced: what is not a matter of the lake is Spark's.

May import: `pipeline.write`, `pipeline.sql`, `pipeline.read` and the layers below; `lakes.Attached` is what it needs of
Spark for a lake.
Read first: `session.py`.
"""
