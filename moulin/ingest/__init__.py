"""Telemetry and rows over the network: from the request of a sender to rows of tables.

Rooms: `collector/` (requests in, baby segments out, acknowledged when stored) and `intake/` (baby segments in, rows
of tables out), both above `otlp/` (the decoder) and `appended` (rows that were sent for one table).
`flow` reports the state of the streams. `setup` creates the tables of `moulin init --otel`, `check_streams`
checks that no acknowledged record is lost. The nursery, which commits what `intake/` returns, is in `pipeline/`.

May import: all layers down from `moulin.mirror`. gRPC and HTTP are imported in `collector/` only.
Read first: `collector/collector.py`, then `intake/intake.py`.

Nouns: a request becomes an entry; entries become a baby segment; baby segments are numbered in a stream; a stream has
a frontier, the last baby segment that is in tables.
"""
