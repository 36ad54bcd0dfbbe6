"""The server process: gRPC and HTTP servers, and background loops.

`serve` is the whole process: gRPC, HTTP, metrics and the janitor, started and stopped in order. `server` builds the
gRPC server, `services` lists the servicers with their roles, `calls` wraps every call (request id, access, errors,
figures). `http` answers /healthz and /metrics, `http_gate` asks for tokens; `serve` mounts what it is given on it.
`cluster` keeps the list of members, `janitor_loop` applies retention, plans compactions and cleans up, `metrics`
counts. May import everything in meta, and the layers below. Nothing in meta imports this room; `cli` does. Read
`server.py` first, then `calls.py`. Nouns: `Serving` (the process) -> `MetaServer` (its gRPC part) -> servicer ->
call."""
