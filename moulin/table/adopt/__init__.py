"""Adoption: Parquet files of somebody else become segments where they lie, and no byte is copied.

Read `adopt.py` first. `files.py` finds the files and the base path that they lie below, `kernel.py` reads their
footers, in threads or in tasks of Spark, `columns.py` matches their columns with those of the table, `partition.py`
reads partition values from paths and finds the partition of a file, and `keys.py` indexes the keys of files for a keyed
table. `iceberg_table.py` and `delta.py` read the lists of files of other tables, and `importing.py` makes tables of
them.

May import the rooms below it: `bulk`, `keyed`, `write`, `read`, `context`. Ladder: source -> found file -> footer ->
segment facts.
"""
