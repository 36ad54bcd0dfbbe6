"""Completion of a statement: databases, tables, columns, functions, SQL keywords."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, Protocol

from moulin.statement_text import KEYWORDS, Dialect

Kind = Literal["database", "table", "view", "column", "function", "keyword"]
MOST: Final = 60
_MOST_TABLES: Final = 12
_MOST_LOOKUPS: Final = 64
_LONGEST_NAME: Final = 1000
"""Characters before the cursor that a name with its parts may have: a search takes their square in time."""
_QUOTES: Final[Mapping[Dialect, str]] = MappingProxyType({"spark": "`", "duckdb": '"'})
_PART: Final = r'(?:`[^`]*`|"[^"]*"|[\w$@]+)'
_OPEN: Final = re.compile(
    r"""'(?:[^'\\]|\\.|'')*(?P<text>$|')|--[^\n]*(?P<line>$|\n)|/\*.*?(?P<block>$|\*/)""", re.DOTALL
)
_TYPED: Final = re.compile(rf'(?P<path>(?:{_PART}\.)*)(?P<last>[`"]?[\w$@]*)$')
_NAMED: Final = re.compile(rf"(?<![\w$@`\"])({_PART})\.({_PART})(?:\s+(?:as\s+)?({_PART}))?", re.IGNORECASE)
_WORDS: Final = re.compile(r"\w+")
_BEFORE_TABLES: Final = frozenset({"from", "join", "describe", "desc", "table"})
_PLAIN: Final = re.compile(r"[A-Za-z_]\w*")
_CLAUSES: Final = """
where group order having limit on using select window qualify union intersect except offset
"""
_RESERVED: Final = """
analyse analyze any array asof asymmetric at authorization binary both check collate collation column concurrently
constraint create default deferrable do fetch for foreign freeze generated glob grant ilike initially isnull lambda
leading map notnull only outer overlaps pivot placing positional primary references returning show similar some struct
summarize symmetric tablesample to trailing unique unpack unpivot user variadic verbose window
"""
_QUOTED: Final = frozenset({*KEYWORDS, *_RESERVED.split()})
"""Names that are quoted, since an engine takes them for something else. It is right to quote any name."""
_ENDS_CLAUSE: Final = frozenset(_CLAUSES.split())


@dataclass(frozen=True, slots=True)
class Candidate:
    """`text` is what to write, quoted where it must be; `detail` says more of it."""

    text: str
    kind: Kind
    detail: str = ""


class Names(Protocol):
    """What the lake has."""

    def databases(self) -> Iterable[str]: ...
    def tables(self, database: str) -> Iterable[tuple[str, Kind]]: ...
    def columns(self, database: str, table: str) -> Iterable[tuple[str, str]]:
        """Names and types; none for a table that is not there."""


def complete(
    before: str, after: str, dialect: Dialect, names: Names, functions: Iterable[str]
) -> tuple[str, list[Candidate]]:
    """What of the text before the cursor to replace, and what to put there, the likeliest first."""
    if _is_inside(before):
        return "", []
    cut = max(0, len(before) - _LONGEST_NAME)
    typed = _TYPED.search(before[cut:])
    assert typed is not None
    path = [_bare(part) for part in re.findall(_PART, typed["path"])]
    earlier = before[: cut + typed.start()]
    found = _Completion(earlier, f"{earlier} {after}", dialect, names, functions)
    wanted = typed["last"].lstrip('`"').lower()
    is_name = typed["last"] != typed["last"].lstrip('`"')
    ranked = sorted(
        (rank, number, one)
        for number, one in enumerate(found.candidates(path, wanted))
        if not (is_name and one.kind in ("function", "keyword"))
        and (rank := _rank(one.text.strip('`"').lower(), wanted, one.kind)) is not None
    )
    unique = dict.fromkeys(one for _, _, one in ranked)
    return typed["last"], list(unique)[:MOST]


def _rank(name: str, wanted: str, kind: Kind) -> int | None:
    if name.startswith(wanted):
        return 0
    return 1 if len(wanted) > 1 and kind not in ("keyword", "function") and wanted in name else None


def _is_inside(before: str) -> bool:
    """Whether the text ends in a comment, or in a quote that is not a name."""
    return any("" in (one["text"], one["line"], one["block"]) for one in _OPEN.finditer(before))


def _bare(part: str) -> str:
    return part[1:-1] if part[:1] in '`"' else part


class _Completion:
    """One question."""

    def __init__(self, before: str, text: str, dialect: Dialect, names: Names, functions: Iterable[str]) -> None:
        self._before, self._text, self._dialect, self._names, self._functions = before, text, dialect, names, functions

    def candidates(self, path: list[str], wanted: str) -> Iterator[Candidate]:
        if path:
            yield from self._below(path)
        elif self._wants_table():
            for database in self._names.databases():
                yield Candidate(self._quoted(database), "database")
            if wanted:
                yield from self._tables_anywhere()
            yield from self._words()
        else:
            for name, of in self._named().items():
                if not _same(name, of[1]):
                    yield Candidate(self._quoted(name), "table", ".".join(of))
            for of in dict.fromkeys(self._named().values()):
                yield from self._columns(*of)
            yield from (Candidate(one, "function") for one in self._functions if wanted)
            yield from self._words()
            for database in self._names.databases():
                yield Candidate(self._quoted(database), "database")

    def _below(self, path: list[str]) -> Iterator[Candidate]:
        """What has a name that begins with these parts."""
        if len(path) == 2:
            yield from self._columns(path[0], path[1])
            return
        (name,) = path[-1:]
        of = next((of for alias, of in self._named().items() if _same(alias, name)), None)
        if of is not None and not self._wants_table():
            yield from self._columns(*of)
        database = next((one for one in self._names.databases() if _same(one, name)), None)
        for table, kind in () if database is None else self._names.tables(database):
            yield Candidate(self._quoted(table), kind, database or "")

    def _columns(self, database: str, table: str) -> Iterator[Candidate]:
        for name, kind in self._names.columns(database, table):
            yield Candidate(self._quoted(name), "column", f"{kind} · {table}")

    def _tables_anywhere(self) -> Iterator[Candidate]:
        for database in self._names.databases():
            for table, kind in self._names.tables(database):
                yield Candidate(f"{self._quoted(database)}.{self._quoted(table)}", kind, database)

    def _words(self) -> Iterator[Candidate]:
        return (Candidate(word, "keyword") for word in KEYWORDS)

    def _wants_table(self) -> bool:
        """Whether a table comes next: after FROM and JOIN, and after a comma in the list of FROM."""
        words = [word.lower() for word in _WORDS.findall(self._before)]
        if words and words[-1] in _BEFORE_TABLES:
            return True
        if not self._before.rstrip().endswith(","):
            return False
        last = next((word for word in reversed(words) if word in _BEFORE_TABLES or word in _ENDS_CLAUSE), "")
        return last == "from"

    def _named(self) -> dict[str, tuple[str, str]]:
        """Tables that the text names, by their aliases and names."""
        found: dict[str, tuple[str, str]] = {}
        asked: set[tuple[str, str]] = set()
        for database, table, alias in _NAMED.findall(self._text):
            of = _bare(database), _bare(table)
            asked.add(of)
            if len(found) >= _MOST_TABLES or len(asked) > _MOST_LOOKUPS:
                break
            if any(True for _ in self._names.columns(*of)):
                found[_bare(alias) if alias and alias.lower() not in KEYWORDS else of[1]] = of
        return found

    def _quoted(self, name: str) -> str:
        if _PLAIN.fullmatch(name) and name.lower() not in _QUOTED:
            return name
        quote = _QUOTES[self._dialect]
        return quote + name.replace(quote, quote * 2) + quote


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()
