"""A lake behind a server: what `moulin.connect("grpc://...")` opens.

`client` opens the lake, `connection` is the channel with its retries and its token. `catalog` fills `CatalogBackend`
call by call, `tasks` its merge tasks, `tokens` its ingest tokens, and `streams` is what a collector asks for.
Files are read and written by the client itself; only the catalog is behind the server.
May import `codec` and `roles`, and the layers below meta; never `services` or `server`.
A call is repeated only when repeating it does no harm: reads, and writes that carry a request id.
Read `connection.py` first, then `catalog.py`.
Nouns: connection -> stub (one service) -> call -> message.
"""
