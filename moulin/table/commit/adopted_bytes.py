"""An adopted file for readers that parse the footer themselves: with the field ids of its table."""

# Decisions: docs/decisions/0431

from __future__ import annotations

import io
import os

from moulin.formats.segment.footer import read_footer_bytes
from moulin.formats.segment.foreign import adopted_footer
from moulin.model.facts import SegmentFacts
from moulin.storage.segment_source import open_segment
from moulin.storage.store import Store

_TAIL, _MAGIC = 8, b"PAR1"


class AdoptedBytes(io.RawIOBase):
    """An adopted file, presented with the footer of its segment."""

    def __init__(self, store: Store, facts: SegmentFacts) -> None:
        self._source = open_segment(store, facts)
        own, _ = read_footer_bytes(self._source, facts.path)
        assert facts.adopted is not None
        told = adopted_footer(own, facts, facts.adopted)
        self._start = facts.size - len(own) - _TAIL
        self._end = told + len(told).to_bytes(4, "little") + _MAGIC
        self.size = self._start + len(self._end)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self.size - self._at)
        stop = self._at + (left if size is None or size < 0 else min(size, left))
        start, self._at = self._at, stop
        body = self._source.read_at(min(stop, self._start) - start, start) if start < self._start else b""
        return bytes(body) + self._end[max(start - self._start, 0) : max(stop - self._start, 0)]

    def close(self) -> None:
        self._source.close()
        super().close()


__all__ = ["AdoptedBytes"]
