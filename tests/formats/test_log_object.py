from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from uuid import UUID

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import Corrupt, InvalidInput, Unsupported
from moulin.formats.log_object import LogObject, decode_object, encode_object

TABLE = UUID("0f8fad5b-d9cb-469f-a165-70867728950e")
SAMPLE = LogObject(TABLE, region=3, epoch=7, first=41, nonce=bytes(range(16)), entries=(b"put 1", b"put 22"))
PAGE = Path(__file__).parents[2] / "docs" / "formats" / "log_object.md"

numbers = st.integers(0, 2**62)
objects = st.builds(
    LogObject,
    table_id=st.uuids(),
    region=numbers,
    epoch=numbers,
    first=numbers.map(lambda number: number + 1),
    nonce=st.binary(min_size=16, max_size=16),
    entries=st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=8).map(tuple),
)


@given(objects)
def test_objects_come_back(given_object: LogObject) -> None:
    assert decode_object(encode_object(given_object), source="x") == given_object
    assert given_object.last == given_object.first + len(given_object.entries) - 1


@given(objects, st.integers(0), st.integers(1, 255), st.integers(0), st.binary(max_size=9))
@settings(max_examples=100)
def test_every_change_is_noticed(given_object: LogObject, place: int, bits: int, cut: int, more: bytes) -> None:
    data = encode_object(given_object)
    flipped = bytearray(data)
    flipped[place % len(data)] ^= bits
    changed = [bytes(flipped), data[: cut % len(data)], more]
    for damaged in changed + ([data + more] if more else []):
        with pytest.raises(Corrupt, match="^x is damaged: "):
            decode_object(damaged, source="x")


def test_contents_that_contradict_themselves_are_refused() -> None:
    good = encode_object(SAMPLE)[:-4]
    for changes in ({64: 3}, {64: 0}, {64: 0, 68: 0}, {68: 4}, {68: 0, 72: 11}, {47: 0x80}, {40: 0}):
        changed = bytearray(good)
        for place, value in changes.items():
            changed[place] = value
        with pytest.raises(Corrupt):
            decode_object(_sealed(bytes(changed)), source="x")
    with pytest.raises(Unsupported, match="x has log format 2"):
        decode_object(_sealed(good[:4] + b"\2" + good[5:]), source="x")


@pytest.mark.parametrize(
    "change",
    [{"entries": ()}, {"entries": (b"a", b"")}, {"nonce": b"short"}, {"first": 0}, {"epoch": -1}, {"first": 2**63 - 1}],
)
def test_what_cannot_be_stored_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        encode_object(dataclasses.replace(SAMPLE, **change))  # type: ignore[arg-type]


def test_the_example_of_the_page_is_what_the_code_writes() -> None:
    block = PAGE.read_text(encoding="utf-8").split("<!-- example -->")[1].split("```")[1]
    rows = [re.match(r"((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  |$)", line) for line in block.splitlines()]
    assert bytes.fromhex(" ".join(match[1] for match in rows if match)) == encode_object(SAMPLE)


def _sealed(body: bytes) -> bytes:
    return body + google_crc32c.value(body).to_bytes(4, "little")
