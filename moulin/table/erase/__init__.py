"""Erase: rows are taken out of every version of a table, and of all tables that share its segments.

Read `erase.py` first: what happens in which order. `find.py` finds the rows, deleted ones too, in every segment that a
kept version has; `scrub.py` writes such a segment again, with the same rows at the same positions but without the
values of those that go; `streams.py` sees to rows that are in no segment.
`erasure.py` is what the user calls, here or through a server, with the report that `report.py` signs. The commit, and
what follows it, are in `catalog/commit/erase.py` and `catalog/upkeep/erasures.py`.

May import the rooms from `keyed` down. Ladder: family (the tables that share segments) -> examined segment -> erased
positions -> scrubbed segment -> erasure (committed) -> report.
"""
