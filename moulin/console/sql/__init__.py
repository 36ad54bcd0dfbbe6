"""SQL of the console: statements run in child processes, which may be killed.

`statements` has every statement of the server: owner, progress, rows. `children` starts processes, sends them
statements and kills those that do not respond. `wire` has the messages between the two, `sizes` measures
rows. `completion` completes a text, and `export` writes rows as files.

May import: `moulin.network` and the layers below it. The program of a child is passed in by the entry point.
Read first: `statements.py`, then `children.py`.

Nouns: an engine is Spark or DuckDB; a child runs statements of one engine; a task is a request to a child.
"""
