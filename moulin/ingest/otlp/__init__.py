"""OTLP requests as Arrow tables: a decoder for many protobuf messages at a time.

`otlp` is the entry: requests of one signal in, rows with their times and routes out. `wire` walks the wire format for
whole columns; `envelope` reads resources and scopes, `attributes` their maps; `logs`, `spans` and `points` make the
columns of each signal, with `columns` for what they share; `former` makes those of older tables. For collectors,
`count` measures a request, `mend` repairs invalid ones, `json_request` converts OTLP's JSON to protobuf.

Ring-fenced: it imports `model.otel`, `model.arrays` and `model.batching`, and nothing else of Moulin.
Read first: `otlp.py`, then `wire.py`.

Nouns: a request has resources; a resource has scopes; a scope has records; a record becomes a row (a metric one per
point).
"""
