"""Upkeep of a whole lake: clean-up, checks, and what a mirror copies.

Read `gc.py` first: clean-up in two phases, of which the first forgets in SQL (`catalog/expiry.py`) and the second
deletes bytes (`sweep.py`), through one function (`erasure.py`); `collection.py` is what a run did. `clocks.py` refuses
when clocks disagree, and `ownership.py` says which objects a row names. `check.py` looks for damage; it shares
`verification.py` (files and what their bytes must satisfy) and `published.py` (manifests) with `mirror_source.py`.

May import `catalog` and everything below it; only `replica` is above. It reads and deletes in storage, never under the
counter's lock. Ladder: expired (no promise) -> forgotten (no row) -> trash -> erased; an *orphan* is a file that no
row ever named.
"""
