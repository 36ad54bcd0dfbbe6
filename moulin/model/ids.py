"""Identifiers that are never reused: time-ordered UUIDs, and random snapshot ids."""

from __future__ import annotations

import secrets
import time
import uuid


def new_id() -> uuid.UUID:
    """A fresh UUID, version 7: later ids sort after earlier ones, to the millisecond."""
    millis = time.time_ns() // 1_000_000
    value = (millis & (1 << 48) - 1) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    return uuid.UUID(int=value & ~(0x3 << 62) | 0x2 << 62)


def new_snapshot_id() -> int:
    """A positive random 63-bit number, as Iceberg wants of a snapshot."""
    return secrets.randbits(62) + 1
