"""Messages in pages that fit into one answer each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")
_PAGE_BYTES: Final = 1 << 20
_PAGE_ITEMS: Final = 4096


def pages(messages: Iterable[T]) -> Iterator[list[T]]:
    """Messages in lists that fit well into one answer each."""
    page: list[T] = []
    size = 0
    for message in messages:
        page.append(message)
        size += message.ByteSize()  # type: ignore[attr-defined]
        if size >= _PAGE_BYTES or len(page) >= _PAGE_ITEMS:
            yield page
            page, size = [], 0
    if page:
        yield page
