"""Shared by every server of Moulin: limits for clients, the gate in front of the app, and logs.

`http_server` makes a guarded server of an app: `connections` admits connections at the listening socket, `protocol`
ends those whose client is too slow, `websocket` speaks to those that only listen, `limits` has the figures. `gate`
refuses requests that are not HTTP or name a foreign host (`hosts`). `callers` has the roles of those who call and of
routes, `answers` errors as HTTP. `logs` writes one line per event, and limits repeated warnings. `slots` schedules work
of several callers.

May import: `errors`. Used by: the collector (`ingest`), the server (`meta`), and what it mounts (`iceberg`, `console`).
Read first: `http_server.py`, then `connections.py`.

Nouns: a peer is an address with many connections; a connection waits for its client, or its client waits for us.
"""
