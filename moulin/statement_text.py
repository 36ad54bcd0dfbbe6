"""Splits SQL text into statements at `;` for `moulin sql` and `moulin shell`, and finds names of branches in it.

A `;` inside a quote or a comment does not end a statement. Quotes depend on the dialect: in Spark a backslash
escapes inside '...' and "..." (not after r), in DuckDB a quote is only doubled, and $tag$...$tag$ quotes too. Comments
of both are `--` to the end of the line and `/* ... */`, which nest.
"""

# Decisions: docs/decisions/0416

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from moulin.errors import InvalidInput

Dialect = Literal["spark", "duckdb"]

_SQL = """
all and anti as asc between by case cast cross current_date current_timestamp delete desc describe distinct else end
except exists explain false from full group having in inner insert intersect interval into is join lateral left like
limit merge natural not null nulls offset on or order outer over partition qualify right select semi set table then true
truncate union update using values view when where window with
"""
KEYWORDS: Final = tuple(_SQL.split())
"""Keywords of both dialects, for completion."""

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
    """Statements without their `;`, and the text after the last one; `unclosed` names an open quote or comment."""

    statements: list[str]
    rest: str
    unclosed: str | None


def split(text: str, dialect: Dialect) -> Split:
    """The statements that end with `;`, and the rest. Statements of only comments and blanks are skipped."""
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
    """All statements of a text whose last `;` may be missing; InvalidInput if a quote or comment is not closed."""
    cut = split(text, dialect)
    if cut.unclosed is not None:
        raise InvalidInput(f"The text ends inside a {cut.unclosed}: close it.")
    return [*cut.statements, cut.rest.rstrip()] if cut.rest else cut.statements


_AT = "@"
_BARE_BRANCH = r"[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*"


class _Names(NamedTuple):
    """The syntax of names in a dialect: one part, and parts separated by dots, each optionally with a branch."""

    quote: str
    part: re.Pattern[str]
    dotted: re.Pattern[str]


def _names(quote: str, letters: str) -> _Names:
    quoted = rf"{quote}(?:[^{quote}]|{quote}{quote})*{quote}"
    part = rf"(?:{quoted}|{letters})"
    with_branch = rf"{part}(?:@(?:{quoted}|{_BARE_BRANCH}))?"
    one = rf"(?P<name>{part})(?:@(?P<branch>{quoted}|{_BARE_BRANCH}))?"
    return _Names(quote, re.compile(one), re.compile(rf"{with_branch}(?:\.{with_branch})*"))


_NAMES: Final[Mapping[str, _Names]] = MappingProxyType({"spark": _names("`", r"\w+"), "duckdb": _names('"', r"[\w$]+")})


def with_branches(text: str, dialect: Dialect, catalog: str | None = None) -> str:
    """The text with `shop.orders@exp` and `shop@exp.orders` as `shop@exp`.orders, quoted as the dialect quotes names.

    Strings, comments and quoted names are not changed, nor is an @ that follows no name. The first part
    of a name is that of a database, unless it is `catalog`, and there are more.
    """
    if _AT not in text:
        return text
    names = _NAMES[dialect]
    pieces = _pieces(text, dialect)
    return "".join(_moved(piece, names, catalog) if is_name and _AT in piece else piece for piece, is_name in pieces)


def branches_in(text: str, dialect: Dialect) -> set[str]:
    """Possible names of branches in a text: the text after the last @ in a part of a name."""
    names, found = _NAMES[dialect], set()
    for piece, is_name in _pieces(text, dialect) if _AT in text else ():
        for part in names.part.finditer(piece) if is_name and _AT in piece else ():
            if part["branch"] is not None:
                found.add(_bare(part["branch"], names))
            elif _AT in part["name"]:
                found.add(_bare(part["name"], names).rpartition(_AT)[2])
    return found


def _pieces(text: str, dialect: Dialect) -> Iterator[tuple[str, bool]]:
    """The text in pieces, each with a flag whether it is a name."""
    names, starts = _NAMES[dialect], _STARTS[dialect]
    position = 0
    while position < len(text):
        token = starts.match(text, position)
        if token is not None and token[0] not in (names.quote, ";"):
            end = _end(text, token, dialect)
            end = len(text) if end is None else end
        elif (found := names.dotted.match(text, position)) is not None:
            yield found[0], True
            position = found.end()
            continue
        else:
            end = position + 1
        yield text[position:end], False
        position = end


def _moved(written: str, names: _Names, catalog: str | None) -> str:
    """A name with its branch behind its database."""
    parts = [(one["name"], one["branch"]) for one in names.part.finditer(written)]
    given = [(index, branch) for index, (_, branch) in enumerate(parts) if branch is not None]
    first = int(len(parts) > 1 and catalog is not None and _bare(parts[0][0], names).lower() == catalog)
    if not given:
        return written
    if len(given) > 1 or given[0][0] not in (first, first + 1):
        raise InvalidInput(f"{written[:100]} has its branch in the wrong place: write database.table@branch.")
    quote = names.quote
    database = f"{_bare(parts[first][0], names)}{_AT}{_bare(given[0][1], names)}".replace(quote, quote * 2)
    shown = [name for name, _ in parts]
    shown[first] = f"{quote}{database}{quote}"
    return ".".join(shown)


def _bare(part: str, names: _Names) -> str:
    quote = names.quote
    return part[1:-1].replace(quote * 2, quote) if part.startswith(quote) else part


def _end(text: str, token: re.Match[str], dialect: Dialect) -> int | None:
    """The end of the quote or comment that `token` starts; None if it is not closed."""
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


__all__ = ["Dialect", "Split", "branches_in", "split", "statements", "with_branches"]
