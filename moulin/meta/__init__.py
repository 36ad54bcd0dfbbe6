"""The meta service: a lake for other processes, over gRPC and HTTP.

Rooms, from the top: `server` (the process that serves), `services` (one servicer for each gRPC service), `client`
(a lake behind a server), `authority` (checks tokens: `auth` for access tokens, `tickets` for tickets, `issuer` and
`issuer_keys` for tokens of an external issuer), `codec` (values <-> messages). Beside them: `site` (what servicers
share), `roles` (the roles; `server/services.py` says which call takes which), `config` (settings of a server). Imports
point down, and `services` and `client` do not import each other; the contract "Rooms of meta" checks it. gRPC, FastAPI
and the generated messages of services are imported here, in `ingest` and in `iceberg`, and nowhere else. Read
`server/server.py` first, then `services/catalog_service.py` and its mirror image, `client/catalog.py`. Nouns: a
*server* runs *servicers*; a servicer answers *calls*; a call carries a *message*, which the codec turns into a *value*
of the model. A *member* is a process that announced itself to the cluster.
"""
