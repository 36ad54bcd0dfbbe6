r"""A `where` as text or as a pyarrow expression, made into a predicate.

Text is an SQL condition: and, or, not, comparisons (<=> and `is [not] distinct from` too), in, between, is [not]
null, true or false, like and ilike, isnan, array_contains; columns, fields of structs (`address.city`), values of maps
of texts (`attributes['http.route']`, null where the key is missing), literals, + - * /, abs, lower and upper. Names are
quoted with backquotes or double quotes and found as written, else without regard to case.
In text literals a quote is doubled and a backslash is itself; in a like pattern it escapes. Everything else is
rejected: use lake.sql for that.

A *where* is what the user wrote. It is parsed once, at the call that takes it: *terms* (columns, literals, formulas)
are joined into a *condition* by the functions of `conditions`, which front ends that take no text call directly. A
*predicate* is the condition with its schema; this is what scans prune by and what tasks get.

Room: `parser` has the text parsed by sqlglot, `reader` makes the condition, with `literal`, `moment` and `like` for
values and `formula` for what is computed; `join` is for conditions on two sides, `foreign` for pyarrow expressions. May
import: `model.predicate` and what lies below it. Read first: `reader.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import Computed, leaves
from moulin.model.schema.values import Schema
from moulin.model.where.foreign import Hint, bind, foreign
from moulin.model.where.formula import Term

Where: TypeAlias = "str | pc.Expression | Predicate | Hint | None"
"""What may be passed as `where=`: text or an expression of a user, a predicate that was made before over the same
schema, or a hint. None takes every row."""

_NO_ALIASES: Mapping[str, str] = MappingProxyType({})


def parse_where(where: Where, schema: Schema, aliases: Mapping[str, str] = _NO_ALIASES) -> Predicate:
    """The predicate over rows of `schema` that `where` describes; None takes every row.

    `aliases` are other names of columns of `schema`.
    """
    if where is None:
        return Predicate.everything(schema)
    if isinstance(where, Predicate):
        return where
    if isinstance(where, Hint):
        return Predicate.of(schema, where.condition(schema), str(where.expression))
    if isinstance(where, pc.Expression):
        return Predicate.of(schema, foreign(where, schema), str(where))
    if not isinstance(where, str):
        raise InvalidInput(f"A where is SQL text or a pyarrow expression, not {type(where).__name__}.")
    from moulin.model.where.parser import TOO_DEEP, parse_text
    from moulin.model.where.reader import Reader  # with the SQL parser, whose import takes a tenth of a second

    try:
        condition = Reader(schema, aliases).condition(parse_text(where), False)
    except RecursionError:
        raise InvalidInput(TOO_DEEP) from None
    for leaf in leaves(condition):
        if isinstance(leaf, Computed):
            bind(leaf.expression, schema)
    return Predicate.of(schema, condition, where)


def parse_term(text: str, schema: Schema, aliases: Mapping[str, str] = _NO_ALIASES) -> Term:
    """The value that an SQL expression over the columns of `schema` describes."""
    from moulin.model.where.parser import parse_text
    from moulin.model.where.reader import Reader

    return Reader(schema, aliases).term(parse_text(text))


__all__ = ["Hint", "Where", "parse_term", "parse_where"]
