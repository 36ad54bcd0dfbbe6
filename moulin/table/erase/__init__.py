"""Erase: removes rows from every version of a table, and of all tables that share its segments.

Read `erase.py` first: it has the order of the steps. `find.py` finds the rows, including deleted ones, in every segment
of a kept version; `scrub.py` rewrites such a segment, with the same rows at the same positions but without the erased
values; `streams.py` handles rows that are in no segment. `erasure.py` is the entry point, here or through a server,
with the report that `report.py` signs. The commit, and what follows it, are in `catalog/commit/erase.py` and
`catalog/upkeep/erasures.py`.

May import the rooms from `keyed` down. Ladder: family (the tables that share segments) -> examined segment -> erased
positions -> scrubbed segment -> erasure (committed) -> report.
"""
