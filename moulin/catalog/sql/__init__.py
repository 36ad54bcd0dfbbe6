"""SQL, below all nouns: the schema, connections and transactions, versions in the making, leases.

Read `pool.py` first: `read` is a snapshot, `write` a mutation under the counter's lock, `unordered` one that takes no
version. `drivers.py` connects to SQLite or PostgreSQL, `database_errors.py` turns their errors into ours. `schema/` has
the tables, `creation.py` makes them in a new catalog, `migrations/` in an old one. `draft.py` builds the manifests of a
version while it commits. `living.py` is what processes of this machine use of a lake, `leases.py` work that one of
several processes does, `turns.py` who waits to commit to a table, `clock.py` the clock that tests and simulations pass
in.

Imports no other room of the catalog. Ladder: pool -> connection (a transaction) -> write (the lock is held) -> draft (a
version is being made).
"""
