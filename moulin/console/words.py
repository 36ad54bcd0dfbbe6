"""A tokenizer for small query languages such as LogQL and PromQL."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from moulin.errors import InvalidInput
from moulin.model.where.literal import check_unicode

LONGEST: Final = 5000
_MOST: Final = 500
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_PLAIN: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"', "'": "'",
}  # fmt: skip


class Words:
    """A parser's position in a query. `token` has a named group for each kind of word; "space" is skipped.

    After the last word comes an empty one of kind "end".
    """

    def __init__(self, text: str, token: re.Pattern[str]) -> None:
        if len(text) > LONGEST:
            raise InvalidInput(f"A query has at most {LONGEST} characters.")
        check_unicode(text)
        self._words: list[tuple[str, str, int]] = []
        self._at = at = 0
        while at < len(text):
            found = token.match(text, at)
            if found is None:
                raise InvalidInput(
                    f"The query cannot be parsed at column {at + 1}: {text[at : at + 10]!r} is not served."
                )
            if found.lastgroup != "space":
                self._words.append((str(found.lastgroup), found[0], at))
            at = found.end()
        self._words.append(("end", "", at))
        if len(self._words) > _MOST:
            raise InvalidInput(f"A query has at most {_MOST} words and signs.")

    @property
    def kind(self) -> str:
        return self._words[self._at][0]

    @property
    def word(self) -> str:
        return self._words[self._at][1]

    @property
    def following(self) -> str:
        """The word after this one."""
        return self._words[min(self._at + 1, len(self._words) - 1)][1]

    def at(self, *texts: str) -> bool:
        """Whether the word is one of these signs or names."""
        return self.kind in ("sign", "name") and self.word in texts

    def take(self) -> str:
        found = self.word
        self._at = min(self._at + 1, len(self._words) - 1)
        return found

    def taken(self, text: str) -> bool:
        """Skips the word if it is this sign or name."""
        if found := self.at(text):
            self.take()
        return found

    def expect(self, text: str) -> None:
        if not self.taken(text):
            self.refuse(f"{text} is missing here")

    def name(self) -> str:
        """Takes the name of a label."""
        if self.kind != "name":
            self.refuse("the name of a label is missing here")
        return self.take()

    def names(self) -> tuple[str, ...]:
        """Takes names of labels in parentheses."""
        self.expect("(")
        found: list[str] = []
        while not self.at(")"):
            found.append(self.name())
            if not self.taken(","):
                break
        self.expect(")")
        return tuple(dict.fromkeys(found))

    def text(self) -> str:
        """Takes a text in quotes. Between quotes that are not backquotes, escapes are those of Go."""
        if self.kind != "text":
            self.refuse("a text in quotes is missing here")
        inner = self.word[1:-1]
        found = inner if self.word[0] == "`" else _ESCAPE.sub(self._unescaped, inner)
        self.take()
        return found

    def _unescaped(self, found: re.Match[str]) -> str:
        hexadecimal, octal, short, long, plain = found.groups()
        if plain is not None and plain in _PLAIN:
            return _PLAIN[plain]
        number = -1 if plain is not None else int(octal, 8) if octal else int(hexadecimal or short or long, 16)
        # Go's \x80 is a byte; texts are characters here.
        if not 0 <= number < (0x110000 if short or long else 0x80) or 0xD800 <= number < 0xE000:
            self.refuse("this text has an unknown escape")
        return chr(number)

    def refuse(self, why: str) -> NoReturn:
        raise InvalidInput(f"The query cannot be parsed at column {self._words[self._at][2] + 1}: {why}.")


__all__ = ["LONGEST", "Words"]
