"""The named objects of a lake: databases, tables and views, and metadata of tables.

Read `tables.py` first: find a table, load its state at a version, create, rename, drop, resurrect. `databases.py` and
`views.py` have the same shape. `names.py` finds objects by name or id, `lookup.py` resolves names, `references.py`
lists references to a table, `tombstones.py` implements drops. `new_table.py` checks new tables, `history.py` reads
commits, `pins.py` keeps versions for readers, `projections.py` records Iceberg projections.

May import `identity` and `sql`. Functions take a `Draft` when they change something and take a version, a connection
when they read. Ladder: live -> tombstoned (until `delete_at`) -> purged (see `expiry.py`).
"""
