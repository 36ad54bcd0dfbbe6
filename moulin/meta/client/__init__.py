"""A lake behind a server: what `moulin.connect("grpc://...")` opens.

`client` opens the lake, `connection` is the channel with its retries and its token. `catalog` implements
`CatalogBackend`, `tasks` its merge tasks, `tokens` its ingest tokens, and `streams` the calls of a collector. Files are
read and written by the client itself; only the catalog is behind the server. May import `codec` and `roles`, and the
layers below meta; never `services` or `server`. A call is repeated only if that is safe: reads, and writes with a
request id. Read `connection.py` first, then `catalog.py`.
Nouns: connection -> stub (one service) -> call -> message.
"""
