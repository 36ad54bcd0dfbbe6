"""The error for writes to a region of an earlier division."""

from __future__ import annotations

from moulin.errors import Closed


class Divided(Closed):
    """The regions of the table have changed: a retry finds the new region of a row."""


__all__ = ["Divided"]
