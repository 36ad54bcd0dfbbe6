"""Brackets behind words that are types, as in `float(float(1))`, nested in one another.

sqlglot reads what is in such brackets as the parameters of a type first, and once more as the arguments of a function.
So each level takes twice the time of the one inside it: 22 levels of 4 characters each take a minute.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from sqlglot import Token, TokenType

MOST: Final = 6
_OPENING: Final = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING: Final = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


def are_too_deep(tokens: Iterable[Token], types: Collection[TokenType]) -> bool:
    """Whether more than MOST of them lie in one another. `types` are the words of types that a parser knows."""
    opened: list[bool] = []
    before: TokenType | None = None
    for token in tokens:
        kind = token.token_type
        if kind in _OPENING:
            opened.append(before in types)
            if sum(opened) > MOST:
                return True
        elif kind in _CLOSING and opened:
            opened.pop()
        before = kind
    return False


__all__ = ["MOST", "are_too_deep"]
