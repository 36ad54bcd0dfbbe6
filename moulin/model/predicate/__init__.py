"""Predicates over rows: filter rows, and skip files.

`condition` is the tree and its algebra, `predicate` the tree with what callers ask of it. `evaluation` runs it over
Arrow tables, `terms` cuts it into parts that are tried in turn, `prune` judges it by the facts of a file, `domain` is
what a column may hold as far as is known.

May import: `model.layout`, `model.schema`, `model.columns`, `model.facts`. How text becomes a condition is in
`model.where`. Read first: `condition.py`.

Nouns: a condition is a tree of leaves; a predicate is a condition over the schema of one table; a domain is the set
of values that a column may have.
"""

from moulin.model.predicate.predicate import Predicate

__all__ = ["Predicate"]
