"""The lake in DuckDB: SQL in this process, without Java. The only importer of DuckDB.

`connection` makes a view for every table and view of the lake in a DuckDB connection. A view has no files in it: when
a statement names it, DuckDB calls back, and `select` writes what the table is at the version of the connection: native
Parquet scans over the live segments, deleted rows left out. `columns` brings stored columns to the current schema.
`files` lets DuckDB read objects of a store through Moulin. `results` has the rows of a query as Arrow, for commands.

May import: `lake`, `table` and what lies below; not `pipeline`, `iceberg` or `meta`.
Read first: `connection.py`, then `select.py`.

Nouns: a source is what a connection calls back; a declaration is a column as the Parquet scan is to read it.
"""
