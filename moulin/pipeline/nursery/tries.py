"""Notes of nurseries on their first batch: remaining notes are from nurseries that crashed in it.

A nursery that crashes on a baby segment cannot count the failure, so the next one counts the notes. Only the first
batch of a process has one: after a later crash, the next nursery starts with that batch.
"""

# Decisions: docs/decisions/0076

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID

from moulin.model.ids import new_id
from moulin.storage import paths
from moulin.storage.store import Store


class Tries:
    """The notes of a lake. A note counts when it is `age` seconds old: a younger one may be from a running nursery."""

    def __init__(self, store: Store, age: float) -> None:
        self._store, self._age = store, age

    @contextmanager
    def noted(self, stream_id: UUID, offset: int) -> Iterator[int]:
        """Leave a note at the first baby segment of a batch for as long as the block runs; how many died here before.

        When the block ends well, their notes go, too.
        """
        folder = paths.tries_prefix(stream_id, offset)
        before = datetime.now(UTC) - timedelta(seconds=self._age)
        earlier = list(self._store.list(folder))
        mine = paths.nursery_try(stream_id, offset, new_id())
        self._store.put(mine, b"")
        try:
            yield sum(1 for info in earlier if info.modified <= before)
            self._store.delete([info.path for info in earlier])
        finally:
            self._store.delete([mine])

    def forget(self, stream_id: UUID) -> None:
        """Remove the notes of a stream that has been taken in."""
        self._store.delete([info.path for info in self._store.list(paths.tries_prefix(stream_id))])
