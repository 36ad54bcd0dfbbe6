"""The most memory that a process and its children had, by kind: sampled from /proc while something runs."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import Self

_SECONDS = 0.05
_PROC = Path("/proc")


class Watch:
    """Samples resident memory in a block. Pages that forked workers share count in each of them.

    Kinds: `jvm`, every Java process below; `driver`, the process itself; `workers`, all other processes below it.
    """

    def __init__(self, root: int | None = None) -> None:
        self._root = os.getpid() if root is None else root
        self.peaks: dict[str, int] = {"driver": 0, "workers": 0, "jvm": 0}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory", daemon=True)

    @property
    def python(self) -> int:
        return self.peaks["driver"] + self.peaks["workers"]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._over.wait(_SECONDS)  # the end is sampled too
            for kind, size in _resident(self._root).items():
                self.peaks[kind] = max(self.peaks[kind], size)


def _resident(root: int) -> dict[str, int]:
    """Bytes by kind, of a process and everything below it."""
    children: dict[int, list[int]] = defaultdict(list)
    names: dict[int, str] = {}
    pages: dict[int, int] = {}
    for path in _PROC.iterdir():
        if path.name.isdigit():
            try:
                head, _, tail = (path / "stat").read_text().rpartition(")")
                pages[int(path.name)] = int((path / "statm").read_text().split()[1])
            except (OSError, ValueError, IndexError):
                continue  # it has just ended
            names[int(path.name)] = head.partition("(")[2]
            children[int(tail.split()[1])].append(int(path.name))
    found = {"driver": 0, "workers": 0, "jvm": 0}
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        waiting += children[pid]
        kind = "jvm" if names.get(pid) == "java" else "driver" if pid == root else "workers"
        found[kind] += pages.get(pid, 0) * os.sysconf("SC_PAGE_SIZE")
    return found
