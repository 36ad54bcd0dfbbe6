"""The collector: takes requests, stores them as baby segments, answers when the store has confirmed them.

`service` puts it on the network with `grpc_server` and `http`. `collector` has what both share: who may write, how
many bytes may be on their way; `health` says whether it can take more. `requests` checks what comes in, `stream`
writes the numbered baby segments, `registry` is what it asks of the catalog.

May import: `ingest.otlp` and the layers below; not `intake/`.
Read first: `collector.py`, then `stream.py`.

Nouns: a token has a grant; a request becomes an entry of a baby segment; a stream belongs to one collector.
"""
