"""A process of its own that works on a lake, for tests of several at once. Prints a line for each commit.

    python -m tests.contract.worker CATALOG STORAGE TABLE_ID COUNT [--die-at-put N]

Each round appends a segment and counts up the property "n", which only comes out right if no update is lost. With
`--die-at-put` the process kills itself, as `kill -9` would, instead of writing its N-th manifest.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from uuid import UUID

from moulin.catalog.catalog import Catalog
from moulin.catalog.commit.table_commit import Stale
from moulin.config import Config
from moulin.errors import Unavailable
from moulin.model.operations import Append, SetProperties
from moulin.storage.store import Store, open_store
from tests.contract.samples import commit, segment


def say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def work(catalog: Catalog, table_id: UUID, count: int) -> None:
    for _ in range(count):
        added = segment(catalog, table_id)
        say(_until_done(lambda added=added: commit(catalog, table_id, Append(added=(added,))).version))  # type: ignore[misc]
        say(_until_done(lambda: _count_up(catalog, table_id)))


def _count_up(catalog: Catalog, table_id: UUID) -> int:
    state = catalog.table_by_id(table_id)
    value = int(state.properties.get("n", "0")) + 1
    return commit(catalog, table_id, SetProperties({"n": str(value)}), read=state.version).version


def _until_done(change: object) -> int:
    while True:
        try:
            return change()  # type: ignore[operator,no-any-return]
        except (Stale, Unavailable):
            continue


def die_at_put(store: Store, number: int) -> None:
    """Make the `number`-th manifest the last thing this process tries."""
    put, left = store.put_if_absent, [number]

    def put_if_absent(path: str, data: bytes) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        put(path, data)

    store.put_if_absent = put_if_absent  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("catalog")
    parser.add_argument("storage")
    parser.add_argument("table", type=UUID)
    parser.add_argument("count", type=int)
    parser.add_argument("--die-at-put", type=int, default=0)
    options = parser.parse_args()
    store = open_store(options.storage)
    catalog = Catalog.open(options.catalog, store, Config())
    if options.die_at_put:
        die_at_put(store, options.die_at_put)
    work(catalog, options.table, options.count)
    catalog.close()


if __name__ == "__main__":
    main()
