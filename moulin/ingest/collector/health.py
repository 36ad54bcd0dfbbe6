"""Whether a collector can accept requests: its own state, and regular checks of catalog and store.

A load balancer sends no requests to a failing collector, so health must detect recovery itself. It checks catalog and
store at most every `EVERY` seconds, one check at a time.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from moulin.errors import MoulinError
from moulin.ingest.collector.collector import Collector

EVERY: Final = 2.0
_PATIENCE: Final = 3.0  # seconds; an answer that takes longer counts as none


class Health:
    """Used in the collector's event loop."""

    def __init__(self, collector: Collector, every: float = EVERY) -> None:
        self._collector, self._every = collector, every
        self._asking: asyncio.Task[str | None] | None = None
        self._told: str | None = None
        self._told_at = 0.0

    async def problem(self) -> str | None:
        """Why requests would be rejected; None if they would be accepted."""
        known = self._collector.problem()
        if known is not None:
            return known
        if self._told_at and time.monotonic() - self._told_at < self._every:
            return self._told
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        try:
            return await asyncio.wait_for(asyncio.shield(self._asking), _PATIENCE)
        except TimeoutError:
            return "Catalog or store do not answer in time."

    async def _ask(self) -> str | None:
        try:
            await asyncio.to_thread(self._collector.probe)
            self._told = None
        except MoulinError as error:
            self._told = error.message
        finally:
            self._told_at = time.monotonic()
            self._asking = None
        return self._told
