"""Spark sessions with an attached lake: `lake.attach(spark)` and `lake.spark()`.

PySpark has no catalogs in Python, so names are resolved before Spark sees them: by `session` for SQL, `readers` for
reads, `catalog` for `spark.catalog`, `writers` for writes. All are PySpark's own classes with a few overridden methods;
everything not in the lake is passed to Spark.

May import: `pipeline.write`, `pipeline.sql`, `pipeline.read` and the layers below; `lakes.Attached` is its interface to
a lake's Spark. Read first: `session.py`.
"""
