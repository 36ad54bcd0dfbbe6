"""SQL statements of users: the engine that runs them, and the format of their rows.

`engines` runs a statement on Spark or in DuckDB and returns its rows as Arrow; `formats` writes rows in the
`forms` that there are: a table, JSON, CSV, Parquet or Arrow. `moulin sql` and `moulin shell` share both.

May import: `cli.options`, `cli.output` and the layers below `cli`. Read first: `engines.py`.
"""
