"""Storage of a lake: object stores and folders behind one `Store` interface.

`interface` defines the guarantees of every store; `local` is a folder (`modes`: file permissions), `remote` an object
store (`remote_errors`: errors of its client), and `store` opens the one at an address. `cache` caches immutable objects
in a local `block_folder`. `range_file` reads an object as a file. `table_store` is the store for tables, `read_only`
rejects writes. `sts` vends credentials for a part of a store, using `http_client`; `variables` reads the
environment variables of a store. Every file name is built and parsed in `paths`; `file_kinds` classifies paths.

May import: `moulin.model`, `moulin.config`, `moulin.sized_cache`; not `formats`.
Read first: `interface.py`, then `paths.py`.

Nouns: a path is relative to the lake, an address (URI) is absolute; an object is the data at a path.
"""

from __future__ import annotations

from moulin.storage.store import ObjectInfo, Store, open_store

__all__ = ["ObjectInfo", "Store", "open_store"]
