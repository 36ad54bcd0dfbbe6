"""Adoption: adds existing Parquet files as segments in place, without copying.

Read `adopt.py` first. `files.py` finds the files and their base path, `kernel.py` reads their
footers, in threads or in tasks of Spark, `columns.py` matches their columns with those of the table, `partition.py`
reads partition values from paths and finds the partition of a file, and `keys.py` indexes the keys of files for a keyed
table. `iceberg_table.py` and `delta.py` read the file lists of other tables, and `importing.py` creates tables from
them.

May import the rooms below it: `bulk`, `keyed`, `write`, `read`, `context`. Ladder: source -> found file -> footer ->
segment facts.
"""
