"""Messages of `moulin.meta.v1`: the public services, for clients that are not ours.

Most types are converted only from value to message, for foreign clients. Addresses, moments, ids of segments,
tombstones, tokens (read by our client) and stream offsets are converted both ways. `address` has the location of an
object (bucket, prefix, key), `moment` writes times as text, `segment` writes the number of a segment as a UUID.
May import `codec.id`; never `codec.lake`.
Wire names are those of the proto files and never change; fields are added from number 100 on.
Read `segment.py` first, then `stream.py`.
"""
