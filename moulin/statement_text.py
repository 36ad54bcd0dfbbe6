"""SQL text cut into statements at `;`, as `moulin sql` and `moulin shell` take it.

A `;` inside a quote or a comment does not end a statement. What quotes are depends on the dialect: in Spark a backslash
escapes inside '...' and "..." (not after r), in DuckDB a quote is only doubled, and $tag$...$tag$ quotes too. Comments
of both are `--` to the end of the line and `/* ... */`, which nest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from moulin.errors import InvalidInput

Dialect = Literal["spark", "duckdb"]

_OPEN_COMMENT, _CLOSE_COMMENT = "/*", "*/"
# What begins something that may hold a `;`, or is one; then the whole of it, or no match when it is not closed.
_STARTS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "spark": re.compile(r"""--|/\*|;|(?<![\w])[rR]['"]|['"`]"""),
        "duckdb": re.compile(r"""--|/\*|;|(?<![\w])[eE]'|['"]|(?<![\w$])\$(?:[A-Za-z_]\w*)?\$"""),
    }
)
_WHOLE: Final[Mapping[str, Mapping[str, re.Pattern[str]]]] = MappingProxyType(
    {
        "spark": {
            "--": re.compile(r"--(?:\\\n|[^\r\n])*"),
            "'": re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL),
            '"': re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL),
            "`": re.compile(r"`[^`]*`"),
            "r'": re.compile(r"[rR]'[^']*'"),
            'r"': re.compile(r'[rR]"[^"]*"'),
        },
        "duckdb": {
            "--": re.compile(r"--[^\r\n]*"),
            "'": re.compile(r"'[^']*'"),
            '"': re.compile(r'"[^"]*"'),
            "e'": re.compile(r"[eE]'(?:[^'\\]|\\.)*'", re.DOTALL),
        },
    }
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


class Split(NamedTuple):
    """Statements without their `;`, and the text after the last one; `unclosed` names what is open at its end."""

    statements: list[str]
    rest: str
    unclosed: str | None


def split(text: str, dialect: Dialect) -> Split:
    """The statements that a `;` ends, and what is left. Those of comments and blanks alone are left out."""
    found: list[str] = []
    start = position = 0
    has_code = False
    while (token := _STARTS[dialect].search(text, position)) is not None:
        has_code = has_code or bool(text[position : token.start()].strip())
        kind = token[0]
        if kind == ";":
            if has_code:
                found.append(text[start : token.start()].strip())
            start = position = token.end()
            has_code = False
            continue
        end = _end(text, token, dialect)
        comment = kind in ("--", _OPEN_COMMENT)
        has_code = has_code or not comment
        if end is None:
            return Split(found, text[start:].lstrip(), "comment" if comment else "quote")
        position = end
    has_code = has_code or bool(text[position:].strip())
    return Split(found, text[start:].lstrip() if has_code else "", None)


def statements(text: str, dialect: Dialect) -> list[str]:
    """All statements of a text whose last `;` may be missing; InvalidInput when a quote or comment is not closed."""
    cut = split(text, dialect)
    if cut.unclosed is not None:
        raise InvalidInput(f"The text ends inside a {cut.unclosed}: close it.")
    return [*cut.statements, cut.rest.rstrip()] if cut.rest else cut.statements


def _end(text: str, token: re.Match[str], dialect: Dialect) -> int | None:
    """Where what `token` begins ends; None when it does not."""
    kind = token[0]
    if kind == _OPEN_COMMENT:
        return _comment_end(text, token.end())
    if kind.startswith("$"):
        at = text.find(kind, token.end())
        return None if at < 0 else at + len(kind)
    whole = _WHOLE[dialect][kind.lower()].match(text, token.start())
    return None if whole is None else whole.end()


def _comment_end(text: str, position: int) -> int | None:
    depth = 1
    for edge in _COMMENT_EDGE.finditer(text, position):
        depth += 1 if edge[0] == _OPEN_COMMENT else -1
        if depth == 0:
            return edge.end()
    return None


__all__ = ["Dialect", "Split", "split", "statements"]
