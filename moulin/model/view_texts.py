"""The SQL of a view for an engine: the one stored for it, or a translation.

A translation is checked like any untrusted SQL, and planned first.
"""

# Decisions: docs/decisions/0276, docs/decisions/0502

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import ErrorLevel, exp, parse
from sqlglot.dialects.dialect import Dialect, Dialects
from sqlglot.errors import SqlglotError

from moulin.errors import Unsupported
from moulin.model.entities import SPARK, Representation, ViewQuery
from moulin.model.nested_types import MOST, are_too_deep

MAX_TRANSLATED: Final = 64 << 10
"""Characters of a text that is translated: a parser in Python takes its time."""
_KNOWN: Final = frozenset(one.value for one in Dialects if one.value)


def text_for(query: ViewQuery, dialect: str) -> str:
    """The query in a dialect. Raises Unsupported, with a part of a sentence, when there is none."""
    text = query.sql(dialect)
    if text is not None:
        return text
    names = [field.name for field in query.schema.fields]
    refusals = []
    for one in sorted(query.representations, key=lambda one: one.dialect.lower() != SPARK):
        try:
            return _translated(one, dialect, names)
        except Unsupported as error:
            refusals.append(error.message)
    raise Unsupported("; ".join(refusals))


def _translated(one: Representation, dialect: str, names: Sequence[str]) -> str:
    source = one.dialect.lower()
    named = f"its text for {one.dialect[:40]!r} cannot be translated"
    if source not in _KNOWN:
        raise Unsupported(f"{named}: that dialect is not known here")
    if len(one.sql) > MAX_TRANSLATED:
        raise Unsupported(f"{named}: it has more than {MAX_TRANSLATED} characters")
    try:
        found = Dialect.get_or_raise(source)
        if are_too_deep(found.tokenize(one.sql), found.parser_class.TYPE_TOKENS):
            raise Unsupported(f"{named}: more than {MOST} types or calls of their names lie in one another")
        trees = parse(one.sql, read=source)
        if len(trees) != 1 or not isinstance(trees[0], exp.Query):
            raise Unsupported(f"{named}: it is not one query")
        return str(_named(trees[0], names).sql(dialect, unsupported_level=ErrorLevel.RAISE))
    except (SqlglotError, RecursionError, ValueError) as error:
        said = str(error).splitlines() or ["no reason is given"]
        raise Unsupported(f"{named} ({said[0][:200].rstrip('.')})") from None


def _named(tree: exp.Query, names: Sequence[str]) -> exp.Query:
    """The query with the names of the view for columns to which every engine gives a name of its own."""
    shown = tree.selects
    if len(shown) == len(names) and not tree.is_star:
        for column, name in zip(shown, names, strict=True):
            if not isinstance(column, exp.Alias | exp.Column):
                column.replace(exp.alias_(column.copy(), name, quoted=True))
    return tree
