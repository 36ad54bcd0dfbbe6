"""Tokenizes a statement: text in quotes, comments or parentheses is not split into words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from moulin.errors import InvalidInput

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*)
    |(?P<quoted>`(?:[^`]|``)*`)
    |(?P<text>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>\d+(?!\w))
    |(?P<word>\w+)
    |(?P<symbol>.)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Token:
    """A word, quoted name, text, number or symbol, and the characters of the statement that it is."""

    kind: str
    text: str
    start: int
    end: int

    def is_word(self, word: str) -> bool:
        return self.kind == "word" and self.text.lower() == word

    @property
    def name(self) -> str | None:
        """The part of a name that it is, if it may be one."""
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`")
        return self.text if self.kind in ("word", "number") else None


def tokens_of(text: str) -> list[Token]:
    """The tokens of a statement, without comments and a semicolon at its end."""
    found = list(_scan(text))
    while found and found[-1].text == ";":
        found.pop()
    return found


def first_word(text: str) -> str:
    """The word that a statement begins with, in lower case; empty when it begins with something else."""
    first = next(_scan(text), None)
    return first.text.lower() if first is not None and first.kind == "word" else ""


def _scan(text: str) -> Iterator[Token]:
    position = 0
    while position < len(text):
        if text.startswith("/*", position):
            position = _comment_end(text, position)
            continue
        match = _TOKEN.match(text, position)
        assert match is not None
        assert match.lastgroup is not None
        if match.lastgroup != "space":
            yield Token(match.lastgroup, match[0], match.start(), match.end())
        position = match.end()


def _comment_end(text: str, start: int) -> int:
    """Where a comment ends; comments may hold others."""
    depth = 0
    for mark in _COMMENT.finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


class Reader:
    """Reads the tokens of one statement from left to right; `usage` is how it is written, for errors."""

    def __init__(self, tokens: list[Token], usage: str = "") -> None:
        self._tokens, self._position, self.usage = tokens, 0, usage

    def accept(self, words: str) -> bool:
        """Pass these words and symbols, if they come next, all of them or none."""
        wanted = words.split()
        ahead = self._tokens[self._position : self._position + len(wanted)]
        if len(ahead) < len(wanted):
            return False
        if not all(token.is_word(word) or token.text == word for token, word in zip(ahead, wanted, strict=True)):
            return False
        self._position += len(wanted)
        return True

    def expect(self, words: str) -> None:
        if not self.accept(words):
            raise self.error()

    def one_name(self) -> str:
        token = self._next()
        if token is None or token.name is None:
            raise self.error()
        self._position += 1
        return token.name

    def name(self) -> tuple[str, ...]:
        """A name of one or more parts."""
        parts = [self.one_name()]
        while self.accept("."):
            parts.append(self.one_name())
        return tuple(parts)

    def number(self) -> int:
        token = self._next()
        if token is None or token.kind != "number":
            raise self.error()
        self._position += 1
        return int(token.text)

    def end(self) -> None:
        if self._next() is not None:
            raise self.error()

    @property
    def at_end(self) -> bool:
        return self._next() is None

    def error(self) -> InvalidInput:
        token = self._next()
        found = "ends too early" if token is None else f"has {token.text[:40]!r} where something else belongs"
        return InvalidInput(f"The statement {found}: write {self.usage}.")

    def _next(self) -> Token | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None
