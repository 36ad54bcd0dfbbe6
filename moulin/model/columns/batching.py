"""Batches an iterable into lists by number of items or by weight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

_T = TypeVar("_T")


def batched(items: Iterable[_T], count: int) -> Iterator[list[_T]]:
    """Lists of `count` items in their order; the last one may be shorter, and none is empty."""
    source = iter(items)
    while batch := list(islice(source, count)):
        yield batch


def packed(items: Iterable[_T], weigh: Callable[[_T], int], limit: int) -> Iterator[list[_T]]:
    """Lists of items in their order. Each ends with the item that brings it to `limit`; none is empty."""
    held: list[_T] = []
    weight = 0
    for item in items:
        held.append(item)
        weight += weigh(item)
        if weight >= limit:
            yield held
            held, weight = [], 0
    if held:
        yield held
