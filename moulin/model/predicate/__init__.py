"""Predicates over rows: conditions, their evaluation by Arrow, and pruning by facts."""

from moulin.model.predicate.predicate import Predicate

__all__ = ["Predicate"]
