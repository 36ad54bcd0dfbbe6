"""Messages of `moulin.lake.v1`: the catalog, call by call, between a server and the lakes of other processes.

Both directions are here, since our own client reads what our own server writes. `commit` is the largest: every
operation of `model.operations`. `segment` has two forms of a segment: a committed one (`segment`), with version and row
ids, and a new one in a commit (`facts`), without them. Modules are small; `tombstone`, `member`, `partition` and
`segment` are used by the others. May import `codec.id` and `codec.page`; never `codec.meta`.
Read `table.py` first, then `commit.py`.
Nouns: commit -> operation -> segments and vectors; the feed lists what each version did to them.
"""
