"""Spark looks for modules of this name by itself: with Moulin installed, `format("moulin")` works in any session."""

from moulin.pipeline.source.datasource import MoulinSource as DefaultSource

__all__ = ["DefaultSource"]
