"""Validates free text of clients, so that every catalog and manifest can store it."""

from __future__ import annotations

from collections.abc import Mapping

from moulin.errors import InvalidInput

MAX_KEY = 1024
MAX_VALUE = 1 << 20


def check_text(text: object, what: str, longest: int = MAX_VALUE) -> str:
    """`text` itself when it can be stored: valid Unicode without a zero byte, and not too long; `what` names it."""
    if not isinstance(text, str):
        raise InvalidInput(f"A {what} is text, not {type(text).__name__}.")
    if "\0" in text:
        raise InvalidInput(f"A {what} must not contain a zero byte.")
    if len(text) > longest:
        raise InvalidInput(f"A {what} has at most {longest} characters, not {len(text)}.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"The {what} {text[:40]!r} is not valid Unicode: it contains half of a surrogate pair."
        ) from None
    return text


def check_texts(texts: Mapping[str, object], what: str, longest: int = MAX_VALUE) -> None:
    """Refuse keys and values that cannot be stored. Values that are not text are as long as they print."""
    total = 0
    for key, value in texts.items():
        check_text(key, f"{what} name", MAX_KEY)
        total += len(key) + len(check_text(str(value), f"value of {what} {key!r:.60}", longest))
    if total > 4 * longest:
        raise InvalidInput(f"All of {what} together have at most {4 * longest} characters, not {total}.")


__all__ = ["MAX_KEY", "MAX_VALUE", "check_text", "check_texts"]
