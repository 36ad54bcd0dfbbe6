"""Baby segments: what is written is read, and damage is told."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moulin.errors import Corrupt, InvalidInput, Unsupported
from moulin.formats import baby_segment as blob
from moulin.formats.baby_segment import BabySegment, Entry, Kind, Payload
from moulin.model.ingest import StopReason

STREAM = UUID("0f8fad5b-d9cb-469f-a165-70867728950e")
TOKEN = UUID("019ae8e5-f2aa-79c2-8000-000000000001")
NONCE = bytes(range(16))

ENTRIES = st.lists(
    st.one_of(
        st.builds(
            Entry,
            st.uuids(),
            st.sampled_from([Payload.LOGS, Payload.TRACES, Payload.METRICS]),
            st.integers(0, 2**32 - 1),
            st.binary(max_size=300),
        ),
        st.builds(
            Entry,
            st.uuids(),
            st.sampled_from([Payload.NDJSON, Payload.ARROW]),
            st.integers(0, 1000),
            st.binary(max_size=300),
            st.text(min_size=1, max_size=20),
        ),
    ),
    min_size=1,
    max_size=8,
)


@given(entries=ENTRIES, offset=st.integers(0, 2**63 - 1))
def test_entries_come_back_with_their_header(entries: list[Entry], offset: int) -> None:
    data = blob.encode_data(STREAM, NONCE, offset, 7, entries)
    found = blob.decode(data, source="x", stream_id=STREAM, offset=offset)
    assert found.entries == tuple(entries)
    assert found.header.kind is Kind.DATA
    assert found.header.records == sum(entry.records for entry in entries)
    assert (found.header.nonce, found.header.offset, found.header.written_at) == (NONCE, offset, 7)


def test_keep_alive_and_stop_objects_have_no_entries() -> None:
    stop = blob.decode(blob.encode_stop(STREAM, NONCE, 3, 9, StopReason.TIMEOUT), source="x")
    assert (stop.header.kind, stop.header.reason, stop.entries) == (Kind.STOP, StopReason.TIMEOUT, ())
    alive = blob.decode(blob.encode_keep_alive(STREAM, NONCE, 3, 9), source="x")
    assert (alive.header.kind, alive.entries) == (Kind.KEEP_ALIVE, ())


@given(data=st.data())
def test_every_flipped_byte_and_every_cut_is_refused(data: st.DataObject) -> None:
    good = blob.encode_data(STREAM, NONCE, 5, 7, data.draw(ENTRIES))
    place = data.draw(st.integers(0, len(good) - 1))
    bits = data.draw(st.integers(1, 255))
    flipped = good[:place] + bytes([good[place] ^ bits]) + good[place + 1 :]
    for damaged in (flipped, good[:place], good + b"\0"):
        with pytest.raises((Corrupt, Unsupported)):
            blob.decode(damaged, source="x")


@given(body=st.binary(max_size=400), raw_size=st.integers(0, 500), records=st.integers(0, 3))
def test_nonsense_with_a_good_hash_is_corrupt(body: bytes, raw_size: int, records: int) -> None:
    """The hash proves that nothing was damaged, not that the writer was sane."""
    made = [
        blob._object(Kind.DATA, STREAM, NONCE, 1, 1, records, raw_size, body, StopReason.UNSPECIFIED),
        blob._object(
            Kind.DATA, STREAM, NONCE, 1, 1, records, len(body), blob._CODEC.compress(body, asbytes=True), StopReason(0)
        ),
    ]
    for data in made:
        try:
            found = blob.decode(data, source="x")
        except Corrupt:
            continue
        assert isinstance(found, BabySegment)
        assert found.entries


def test_a_bomb_is_not_unpacked() -> None:
    packed = blob._CODEC.compress(bytes(50 << 20), asbytes=True)
    for claimed in (100, blob.MAX_RAW + 1):
        data = blob._object(Kind.DATA, STREAM, NONCE, 1, 1, 1, claimed, packed, StopReason.UNSPECIFIED)
        with pytest.raises(Corrupt):
            blob.decode(data, source="x")


def test_an_object_of_another_stream_or_number_is_corrupt() -> None:
    data = blob.encode_keep_alive(STREAM, NONCE, 3, 9)
    with pytest.raises(Corrupt, match="number 3"):
        blob.decode(data, source="x", offset=4)
    with pytest.raises(Corrupt):
        blob.decode(data, source="x", stream_id=TOKEN)


def test_what_cannot_be_stored_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one"):
        blob.encode_data(STREAM, NONCE, 0, 0, [])
    with pytest.raises(InvalidInput, match="table"):
        blob.encode_data(STREAM, NONCE, 0, 0, [Entry(TOKEN, Payload.NDJSON, 1, b"{}")])
    with pytest.raises(InvalidInput, match="nonce"):
        blob.encode_keep_alive(STREAM, b"", 0, 0)


def test_the_example_of_the_page_is_what_the_code_writes() -> None:
    page = (Path(__file__).parents[2] / "docs/formats/baby_segment.md").read_text()
    example = page.split("<!-- example -->")[1].split("```")[1]
    data = bytes.fromhex("".join(re.findall(r"^((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  |$)", example, re.MULTILINE)))
    found = blob.decode(data, source="docs", stream_id=STREAM, offset=41)
    assert (found.header.kind, found.header.nonce, found.header.reason) == (Kind.STOP, NONCE, StopReason.TIMEOUT)
    assert data == blob.encode_stop(STREAM, NONCE, 41, 1_767_225_600_000_000_000, StopReason.TIMEOUT)
