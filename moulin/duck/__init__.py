"""The lake in DuckDB: SQL in this process, without Java. The only importer of DuckDB.

`connection` opens connections, and `views` makes a view for every table and view of the lake; `translation` has the
queries of views. The view of a small table is its SELECT, which `select` writes: native Parquet scans over the live
segments, deleted rows left out. That of a large table calls `source` when a statement is planned. `dry_plans` lets
DuckDB plan the statement once before, and `asked` reads the needed rows from that plan. `columns` brings stored columns
to the current schema, `files` lets DuckDB read objects of a store through Moulin, and `results` has the rows of a query
as Arrow, for commands. `checked` checks untrusted SQL against allow lists; `safe` runs it.

May import: `lake`, `table` and what lies below; not `pipeline`, `iceberg` or `meta`.
Read first: `connection.py`, then `views.py`, `source.py` and `asked.py`.

Nouns: a source provides the callbacks of a connection; a declaration describes a column to the Parquet scan; a dry plan
is a plan that is not run, with stand-ins instead of tables.
"""
