"""Adoption: Parquet files of somebody else become segments where they lie, and no byte is copied.

Read `adopt.py` first. `files.py` finds the files and the base path that they lie below, `kernel.py` reads their
footers, in threads or in tasks of Spark, `columns.py` matches their columns with those of the table, and `partition.py`
reads partition values from paths and finds the partition of a file. `source.py` reads the lists of files of Iceberg and
Delta tables, and `importing.py` makes tables of them.

May import the rooms below it: `write`, `read`, `context`. Ladder: source -> found file -> footer -> segment facts.
"""
