"""Ingest in the catalog: tokens, streams of collectors, what nurseries commit, and who takes part.

Read `streams.py` first: a stream is a collector's numbered baby segments; its frontier says how far they are in
segments. `tokens.py` says who may write and to which tables signals go. `nursery.py` commits segments and moves
frontiers in one transaction, by compare-and-set. `members.py` keeps heartbeats.

May import the rooms from `commit` down. `catalog/ingest.py` opens the transactions. Ladder: baby segment (at an offset
of a stream) -> taken into a table (`stream_tables`) -> below the frontier (in all tables) -> deleted from storage; a
stream is active -> stopped -> retired -> purged."""
