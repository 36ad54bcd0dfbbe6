"""Messages of `moulin.meta.v1`: the public services, for clients that are not ours.

Most nouns go one way only, from a value to a message: strangers read them. Both ways go addresses, moments, ids of
segments, tombstones and tokens (our client reads those) and the offsets of streams.
`address` says where an object lies (bucket, prefix, key), `moment` writes times as text, `segment` writes the number of
a segment as a UUID.
May import `codec.id`; never `codec.lake`.
Wire names are those of the proto files and never change; fields are added from number 100 on.
Read `segment.py` first, then `stream.py`.
"""
