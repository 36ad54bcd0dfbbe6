"""SQL of the console: statements run in child processes, which may be killed.

`statements` knows every statement of the server: who started it, how far it is, its rows. `children` starts processes,
gives them statements and ends those that do not obey. `wire` has the messages between the two, and `sizes` says what
rows take. `completion` finds what may follow in a text, and `export` writes rows as files.

May import: `moulin.network` and the layers below it. What a child runs comes from the entry point.
Read first: `statements.py`, then `children.py`.

Nouns: an engine is Spark or DuckDB; a child runs statements of one engine; a task is what a child is asked to do.
"""
