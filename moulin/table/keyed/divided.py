"""What whoever writes a region of an earlier division gets."""

from __future__ import annotations

from moulin.errors import Closed


class Divided(Closed):
    """The keys of the table are divided otherwise by now: the next try finds the region that a row belongs to."""


__all__ = ["Divided"]
