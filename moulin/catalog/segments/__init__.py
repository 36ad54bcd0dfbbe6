"""Segments in the catalog: live segments of a version, searches, counts, feeds and deletion.

Read `live.py` first: spans, and the time classes that make a range cheap. `lookup.py` finds segments in pages (its SQL
is in `pages.py`), `stats.py` counts, `feed.py` compares two versions. `sql_rows.py` has the rows that a commit and a
replay write. A segment's life outside of versions: `staging.py` hands out numbers before files are written,
`retention.py` finds segments past their time, `deletion.py` offers tombstoned ones until somebody confirms that they
are gone.

May import `objects`, `identity` and `sql`. Everything here reads, or takes no version; commits are in `commit/`.
Ladder: number (reserved or staged) -> segment (committed, live in spans) -> tombstoned (in the trash) -> gone.
"""
