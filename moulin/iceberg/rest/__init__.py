"""The Iceberg REST catalog: an app that a server mounts under /iceberg.

`app` lists the endpoints. `commit/` has everything that engines write, `scan/` plans scans for them, `views/` has
views. `tables` and `namespaces` list, load, rename and drop. `requests` parses requests, `errors` formats errors,
`idempotency` returns the first response to a repeated request, `turns` gives writers with a conflict priority,
`credentials` vends keys of the storage, `openapi` describes the API.

May import: `iceberg.projection`, `iceberg.format`, and the layers below. Order: `app` > `openapi`, `scan/`, `views/` >
`commit/` > `tables` > `credentials`, `namespaces`, `idempotency`, `turns` > `requests` > `errors`.
Read first: docs/operations/iceberg_rest.md, then `app.py` and `commit/commit.py`.

Nouns: a namespace is a database; a snapshot is a version; a requirement must hold before updates are applied.
"""
