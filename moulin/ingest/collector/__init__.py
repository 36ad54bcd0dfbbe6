"""The collector: receives requests, stores them as baby segments, and acknowledges them when the store has confirmed.

`service` puts it on the network with `grpc_server` and `http`. `collector` has what both share: authorization and the
byte budget; `health` reports whether it can accept requests. `requests` checks OTLP and `rows` appended rows, with
`arrow_stream` for the decoded size of Arrow, all within `limits`. `stream` writes the numbered baby segments,
`registry` is its interface to the catalog.

May import: `ingest.otlp`, `ingest.appended` and the layers below; not `intake/`.
Read first: `collector.py`, then `stream.py`.

Nouns: a token has a grant; a request becomes an entry of a baby segment; a stream belongs to one collector.
"""
