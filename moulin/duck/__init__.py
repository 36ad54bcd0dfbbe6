"""The lake in DuckDB: SQL in this process, without Java. The only importer of DuckDB.

`connection` opens connections, and `views` makes a view for every table and view of the lake; `translation` has the
queries of views. The view of a small table is its SELECT, which `select` writes: native Parquet scans over the live
segments, deleted rows left out. That of a large table calls back `source` when a statement is planned. `dry_plans` has
DuckDB plan the statement once before, and `asked` reads from that plan which rows it asks for. `columns` brings stored
columns to the current schema, `files` lets DuckDB read objects of a store through Moulin, and `results` has the rows of
a query as Arrow, for commands. `checked` holds texts of others against lists of what is allowed; `safe` runs such
statements.

May import: `lake`, `table` and what lies below; not `pipeline`, `iceberg` or `meta`.
Read first: `connection.py`, then `views.py`, `source.py` and `asked.py`.

Nouns: a source is what a connection calls back; a declaration is a column as the Parquet scan is to read it; a dry plan
is a plan that is not run, in which stand-ins are in the places of tables.
"""
