r"""Patterns of `like`: % is any text, _ one character, and the escape character (\ by default) makes them plain."""

from __future__ import annotations

from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.predicate.condition import FALSE, Column, Compare, Computed, Condition, IsNull, Like
from moulin.model.where.formula import Formula


def like(term: Column | Formula, pattern: str, escape: str, ignore_case: bool, negated: bool) -> Condition:
    """The rows whose text matches `pattern`, or (`negated`) whose text does not. `term` is text."""
    return _like(term, _parts(pattern, escape), ignore_case, negated)


def starts_with(term: Column | Formula, prefix: str, negated: bool) -> Condition:
    """The rows whose text starts with `prefix`, or (`negated`) whose text does not. `term` is text."""
    return _like(term, [(prefix, False), ("%", True)] if prefix else [("%", True)], False, negated)


def _like(term: Column | Formula, parts: list[tuple[str, bool]], ignore_case: bool, negated: bool) -> Condition:
    arrow = "".join(part if wild else _plain(part) for part, wild in parts)
    if isinstance(term, Formula):
        found = pc.match_like(term.expression, arrow, ignore_case=ignore_case)
        return Computed(~found if negated else found, term.columns)
    if parts and all(part == "%" and wild for part, wild in parts):
        return FALSE if negated else IsNull(term, True)
    prefix = "" if not parts or parts[0][1] else parts[0][0]
    if not ignore_case and not any(wild for _, wild in parts):
        return Compare(term, "!=" if negated else "=", prefix)
    rest = parts[1:] if prefix else parts
    whole = bool(rest) and all(part == "%" and wild for part, wild in rest)
    return Like(term, arrow, prefix, whole, ignore_case, negated)


def _parts(pattern: str, escape: str) -> list[tuple[str, bool]]:
    """Stretches of plain text, and single wildcards (True)."""
    parts: list[tuple[str, bool]] = []
    plain = ""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None or escaped not in ("%", "_", escape):
                raise InvalidInput(
                    f"The pattern {pattern!r} has the escape {escape!r} before neither %, _ nor itself: double it."
                )
            plain += escaped
        elif character in "%_":
            if plain:
                parts.append((plain, False))
                plain = ""
            parts.append((character, True))
        else:
            plain += character
    return [*parts, (plain, False)] if plain else parts


def _plain(text: str) -> str:
    r"""Text as Arrow's pattern: \ before each character that would mean something."""
    return text.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
