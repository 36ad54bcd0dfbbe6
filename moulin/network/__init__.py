"""Shared by every server of Moulin: limits for clients, the gate in front of the app, and logs.

`http_server` creates a server with limits for an app: `connections` admits connections at the listening socket,
`protocol` closes slow ones, `limits` has the limits. `gate` rejects requests that are not HTTP or have a foreign host
(`hosts`). `callers` has the roles of callers and routes, `answers` errors as HTTP. `logs` writes one line per event,
and limits repeated warnings. `slots` schedules work of several callers.

May import: `errors`. Used by: the collector (`ingest`), the server (`meta`), and what it mounts (`iceberg`, `console`).
Read first: `http_server.py`, then `connections.py`.

Nouns: a peer is an address with many connections; a connection waits for its client, or its client waits for us.
"""
