"""Size tiers of segments: each four times as wide as the one below.

Compactions stay within a tier; statistics count by tier.
"""

from __future__ import annotations

from bisect import bisect_right

TIER_STARTS = (0, *((64 << 10) * 4**n for n in range(8)))
"""The smallest size of each tier: 0, 64 KiB, 256 KiB, ... 1 GiB."""


def size_tier(size: int) -> int:
    """The tier of a segment of `size` bytes."""
    return bisect_right(TIER_STARTS, size) - 1
