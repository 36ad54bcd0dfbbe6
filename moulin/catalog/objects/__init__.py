"""The objects of a lake that have names: databases, tables and views, and what hangs on a table without being data.

Read `tables.py` first: find a table, load its state at a version, create, rename, drop, resurrect. `databases.py` and
`views.py` have the same shape. `names.py` says how an object is found by name or id, `lookup.py` what a name means,
`references.py` what still needs a table, `tombstones.py` how a drop works. `new_table.py` checks what a table is made
of, `history.py` reads its commits, `pins.py` keeps versions for readers, `projections.py` knows what was written for
Iceberg engines.

May import `identity` and `sql`. Functions take a `Draft` when they change something and take a version, a connection
when they read. Ladder: live -> tombstoned (until `delete_at`) -> purged (see `expiry.py`).
"""
