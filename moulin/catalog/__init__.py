"""The catalog: the metadata of a lake, in SQL. Every change is one transaction; every read uses one snapshot.

Read `catalog.py` first: `Catalog` opens transactions, and the subpackages implement the work in them. `backend.py` is
the protocol that a lake uses (implemented by `Catalog` here, and by a gRPC client in `meta`); `maintenance.py`,
`ingest.py` and `overview.py` are parts of the same catalog. In this order, each imports only what is below it:

    replica > upkeep > catalog > backend | maintenance | ingest | overview > manifests > expiry > streams > commit
    > tasks > segments > objects > identity > sql

May import `formats`, `storage`, `model`, `config`, `errors`. It is the only importer of SQL drivers.
Ladder: a lake has databases, a database tables, a table segments; a *version* of the lake has, for each table, the
segments whose *spans* are open at it. A *change* is committed; the *feed* is what readers get of changes.
"""

# Decisions: docs/decisions/0204
