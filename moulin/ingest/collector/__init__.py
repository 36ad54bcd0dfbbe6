"""The collector: takes requests, stores them as baby segments, answers when the store has confirmed them.

`service` puts it on the network with `grpc_server` and `http`. `collector` has what both share: who may write, how
many bytes may be on their way. `requests` checks OTLP and `rows` appended rows, with `arrow_stream` for what Arrow
would unpack to, all within `limits`. `stream` writes the numbered baby segments, `registry` is what it asks of the
catalog.

May import: `ingest.otlp`, `ingest.appended` and the layers below; not `intake/`.
Read first: `collector.py`, then `stream.py`.

Nouns: a token has a grant; a request becomes an entry of a baby segment; a stream belongs to one collector.
"""
