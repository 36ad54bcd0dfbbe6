"""Presents foreign Parquet files as segments: adds the field ids of a table to their footers.

The file stays as it is. What readers get is its footer with other bytes in two places: the schema, whose elements have
the field ids of the table or none, and the first letter of keys that would change how the file is read.
"""

# Decisions: docs/decisions/0431

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from moulin.errors import Corrupt
from moulin.formats.segment import thrift
from moulin.formats.segment.footer import CHECKSUM_KEY, LEVEL_KEY, decode_footer
from moulin.model.facts import AdoptedFile, SegmentFacts

_SCHEMA, _NAME, _CHILDREN, _REPETITION, _TYPE, _CONVERTED, _FIELD_ID = 2, 4, 5, 3, 1, 6, 9
_I32 = 5
REPEATED: Final = 2
INT96: Final = 3
HIDDEN_KEYS: Final = (b"ARROW:schema", LEVEL_KEY.encode(), CHECKSUM_KEY.encode())
"""Keys of a footer that change how it is read: Arrow's own types, and what makes a file one of Moulin's segments."""
_PREFIXES = 64  # schemas that are kept with field ids in them


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a Parquet schema; `children` counts those that follow it, `type` is None for a group."""

    name: str
    children: int
    repetition: int
    type: int | None
    converted: int | None
    field_id: int | None


def schema_end(footer: bytes) -> int:
    """Where the schema ends in a footer: what precedes it is the same in all files of one schema and version."""
    walk = thrift.Walk(footer, 0)
    while walk.next():
        number = walk.number
        walk.skip()
        if number == _SCHEMA:
            return walk.at
    raise ValueError("it has no schema")


def elements_of(start: bytes) -> list[Element]:
    """The elements of the schema in a footer, or in its start up to the end of the schema; the first is the root."""
    return [_element(start, at) for at in _elements_at(start)[1]]


def _elements_at(start: bytes) -> tuple[int, list[int], int]:
    """Where the list of elements begins, where each of them does, and where it ends."""
    walk = thrift.Walk(start, 0)
    while walk.next():
        if walk.number != _SCHEMA:
            walk.skip()
            continue
        begin = walk.at
        count, kind, at = thrift.elements(start, begin)
        if kind != thrift.STRUCT:
            raise ValueError("its schema is not a list of elements")
        places = []
        for _ in range(count):
            places.append(at)
            at = thrift.skip(start, at, thrift.STRUCT)
        return begin, places, at
    raise ValueError("it has no schema")


def _element(data: bytes, at: int) -> Element:
    walk = thrift.Walk(data, at)
    found: dict[int, int] = {}
    name = ""
    while walk.next():
        if walk.number == _NAME:
            length, start = thrift.unsigned(data, walk.at)
            name, walk.at = data[start : start + length].decode(), start + length
        elif walk.kind == _I32:
            found[walk.number] = walk.integer()
        else:
            walk.skip()
    return Element(
        name,
        found.get(_CHILDREN, 0),
        found.get(_REPETITION, 0),
        found.get(_TYPE),
        found.get(_CONVERTED),
        found.get(_FIELD_ID),
    )


@lru_cache(_PREFIXES)
def _numbered_start(start: bytes, field_ids: tuple[int, ...]) -> bytes:
    """The start of a footer up to the end of its schema, with these field ids in its elements."""
    begin, places, end = _elements_at(start)
    if len(places) != len(field_ids):
        raise ValueError(f"its schema has {len(places)} elements, not {len(field_ids)}")
    written = [_with_id(start, at, number) for at, number in zip(places, field_ids, strict=True)]
    return start[:begin] + thrift.write_list(thrift.STRUCT, written) + start[end:]


def _with_id(data: bytes, at: int, number: int) -> bytes:
    """An element with another field id; with none for 0."""
    walk, parts, previous = thrift.Walk(data, at), [], 0

    def add(field: int, kind: int, value: bytes) -> None:
        nonlocal previous
        gap = field - previous
        head = bytes([gap << 4 | kind]) if 0 < gap < 16 else bytes([kind]) + thrift.write_signed(field)
        parts.append(head + value)
        previous = field

    pending = number
    while walk.next():
        start = walk.at
        walk.skip()
        if walk.number == _FIELD_ID:
            continue
        if pending and walk.number > _FIELD_ID:
            add(_FIELD_ID, _I32, thrift.write_signed(pending))
            pending = 0
        add(walk.number, walk.kind, data[start : walk.at])
    if pending:
        add(_FIELD_ID, _I32, thrift.write_signed(pending))
    return b"".join(parts) + b"\0"


def hidden_keys(footer: bytes, keys: Mapping[bytes, bytes] | None) -> tuple[int, ...]:
    """Where the keys lie that readers must not know; `keys` are those that the footer has.

    They follow the statistics, which hold users' text: of several places the last one counts.
    """
    found = []
    for key in HIDDEN_KEYS:
        if keys and key in keys:
            at = footer.rfind(b"\x18" + thrift.write_unsigned(len(key)) + key)
            if at < 0:
                raise ValueError(f"its key {key.decode()} is not where keys are")
            found.append(at + 1 + len(thrift.write_unsigned(len(key))))
    return tuple(found)


def with_hidden(footer: bytes, places: Sequence[int]) -> bytes:
    """The footer with the first letters of some keys changed."""
    if not places:
        return footer
    changed = bytearray(footer)
    for at in places:
        changed[at] = ord("x")
    return bytes(changed)


def numbered(footer: bytes, field_ids: tuple[int, ...], places: Sequence[int] = ()) -> bytes:
    """The footer with these field ids in its schema, and without the keys at `places`."""
    hidden = with_hidden(footer, places)
    end = schema_end(hidden)
    return _numbered_start(hidden[:end], field_ids) + hidden[end:]


def adopted_footer(footer: bytes, facts: SegmentFacts, adopted: AdoptedFile) -> bytes:
    """The footer of an adopted file for readers; Corrupt when it is not the one that was adopted."""
    if adopted.unread:
        return _first_look(footer, facts)
    if hashlib.sha256(footer).digest() != facts.sha256:
        raise changed(facts.path)
    try:
        return numbered(footer, adopted.field_ids, adopted.hidden_keys)
    except (ValueError, IndexError) as error:
        raise Corrupt(f"{facts.path} cannot be read as it was adopted: {error}. Run `moulin check`.") from None


def _first_look(footer: bytes, facts: SegmentFacts) -> bytes:
    """The footer of a file that is known from an engine's manifest alone: with its own field ids."""
    try:
        elements = elements_of(footer[: schema_end(footer)])
        raw = decode_footer(footer, facts.path, is_sealed=True)
        own = tuple(element.field_id or 0 for element in elements)
        told = numbered(footer, own, hidden_keys(footer, raw.metadata))
    except (ValueError, IndexError, OSError) as error:
        raise Corrupt(f"{facts.path} is not the Parquet file that an engine committed: {error}.") from None
    if raw.num_rows != facts.rows:
        raise Corrupt(
            f"{facts.path} has {raw.num_rows} rows, and the engine that committed it said {facts.rows}: delete the "
            "file from the table with that engine, and write it again."
        )
    if not any(own[1:]):
        raise Corrupt(f"{facts.path} has no field ids: rewrite it with an engine that writes them.")
    return told


def changed(path: str) -> Corrupt:
    return Corrupt(
        f"{path} changed after it was adopted: its footer is another one. Put the file back, or remove its rows from "
        "the table and adopt it again."
    )


__all__ = [
    "INT96",
    "REPEATED",
    "Element",
    "adopted_footer",
    "changed",
    "elements_of",
    "hidden_keys",
    "numbered",
    "schema_end",
    "with_hidden",
]
