"""What this process has read of local files with every page's checksum right, and need not check again.

Checking costs a fifth of a scan of level 0. A file is known by its inode, size and time of change, so one that was
touched since is checked again. Objects of a remote store are always checked: each read of them is a new transfer.
"""

# Decisions: docs/decisions/0151

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence

from moulin.sized_cache import SizedCache
from moulin.storage.store import Store

_PARTS = 65_536


class VerifiedParts:
    """The parts verified last, some tens of thousands of them. Thread-safe."""

    def __init__(self, limit: int = _PARTS) -> None:
        self._held: SizedCache[Hashable, bool] = SizedCache(limit)

    def __contains__(self, part: Hashable | None) -> bool:
        return part is not None and self._held.find(part) is not None

    def add(self, part: Hashable | None) -> None:
        """Note a part that was read whole; None is not noted."""
        if part is not None:
            self._held.keep(part, True)


VERIFIED = VerifiedParts()


def part_of(store: Store, path: str, columns: Sequence[str] | None, start: int, stop: int) -> Hashable | None:
    """Names rows [start, stop) of some columns of a file as it is now; None when the file is not a local one."""
    local = store.local_path(path) if store.is_local else None
    if local is None:
        return None
    try:
        found = os.stat(local)
    except OSError:
        return None  # opening it says what is wrong
    known = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return (*known, None if columns is None else tuple(columns), start, stop)
