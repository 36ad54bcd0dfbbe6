"""Writes of engines: create, register and commit.

`commit` is the endpoint: it reads `updates`, checks `requirements`, turns updates into `operations`, and takes in
snapshots with `intake`, for which `engine_files` reads and checks files and `equality` finds the rows of deletes by
value; `keyed_rows` does the same for tables with a key. `rebase` says which appends may follow any snapshot. `create`
makes tables, at once or staged; `register` adopts tables that other software wrote. `shapes` has schemas, specs and
orders.

May import: the rest of `rest/` below `app`, `iceberg.projection`, `iceberg.format`.
Read first: `commit.py`.

Nouns: a commit has requirements and updates per table; updates become operations; the operations of all its tables
become one version.
"""
