"""Where a lake's bytes live: object stores and folders behind one `Store`.

`interface` says what every store promises; `local` is a folder (`modes`: who may read its files), `remote` an object
store (`remote_errors`: what its client raises), and `store` opens the one that an address names. `cache` keeps
immutable objects in a `block_folder` of this machine. `range_file` reads an object as a file. `table_store` is the
store as tables read it, `read_only` refuses writes. `sts` lends credentials for a part of a store, by `http_client`;
`variables` says what the environment has for a store. Every file name is built and parsed in `paths`; `file_kinds`
says what a path is.

May import: `moulin.model`, `moulin.config`, `moulin.sized_cache`; not `formats`.
Read first: `interface.py`, then `paths.py`.

Nouns: a path is relative to the lake, an address (URI) is absolute; an object is whatever lies at a path.
"""

from __future__ import annotations

from moulin.storage.store import ObjectInfo, Store, open_store

__all__ = ["ObjectInfo", "Store", "open_store"]
