from __future__ import annotations

import random
import re
from pathlib import Path
from uuid import UUID

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import Corrupt, InvalidInput, Unsupported
from moulin.formats import wal
from moulin.formats.wal import BLOCK_BYTES, FRAME_BYTES, HEADER_BYTES, WalHeader, read_wal

TABLE = UUID("0f8fad5b-d9cb-469f-a165-70867728950e")
HEADER = WalHeader(TABLE, region=3, epoch=7, first=41)
PAGE = Path(__file__).parents[2] / "docs" / "formats" / "wal.md"

lengths = st.one_of(
    st.integers(1, 300),
    st.integers(BLOCK_BYTES - HEADER_BYTES - 3 * FRAME_BYTES, BLOCK_BYTES + FRAME_BYTES),
    st.integers(1, 3 * BLOCK_BYTES),
)


def build(entries: list[bytes], marks: tuple[int, ...] = (), header: WalHeader = HEADER) -> tuple[bytes, list[int]]:
    """A file of these entries, with a mark that all before was synced before the entries of these numbers; and where
    each entry begins."""
    data = wal.encode_header(header)
    seed, starts = wal.seed_of(data), []
    for number, entry in enumerate(entries):
        if number in marks and wal.room(len(data)) >= wal.MARK_BYTES:
            data += wal.frame_mark(seed, len(data))
        starts.append(len(data))
        data += wal.frame(seed, len(data), entry)
    return data, starts


def random_entries(seed: int, sizes: list[int]) -> list[bytes]:
    source = random.Random(seed)
    return [source.randbytes(size) for size in sizes]


def test_the_checksum_is_computed_in_c() -> None:
    assert google_crc32c.implementation == "c"
    assert google_crc32c.value(b"123456789") == 0xE3069283


@given(st.integers(0, 2**32), st.lists(lengths, max_size=12), st.sets(st.integers(0, 11)))
@settings(max_examples=60)
def test_entries_come_back(seed: int, sizes: list[int], marks: set[int]) -> None:
    entries = random_entries(seed, sizes)
    data, _ = build(entries, tuple(marks))
    for final in (True, False):
        found = read_wal(data, source="x.wal", final=final)
        assert found == wal.WalContents(HEADER, entries, len(data), False)


def test_fragments_never_cross_a_block_and_full_frames_are_the_same_bytes() -> None:
    start = wal.encode_header(HEADER)
    seed = wal.seed_of(start)
    assert wal.frame(seed, HEADER_BYTES, b"abc") == wal.full_frame(seed, b"abc")
    for left in range(1, 12):
        filler = bytes([1]) * (BLOCK_BYTES - HEADER_BYTES - FRAME_BYTES - left)
        data = start + wal.full_frame(seed, filler)
        assert wal.room(len(data)) == left - FRAME_BYTES
        more = wal.frame(seed, len(data), b"z" * 10)
        assert more.startswith(bytes(left)) == (left <= FRAME_BYTES)
        assert read_wal(data + more, source="x", final=False).entries == [filler, b"z" * 10]


def test_an_entry_is_never_empty() -> None:
    with pytest.raises(InvalidInput, match="at least one byte"):
        wal.frame(1, HEADER_BYTES, b"")


@pytest.mark.parametrize(
    "header", [WalHeader(TABLE, -1, 0, 1), WalHeader(TABLE, 0, 2**63, 1), WalHeader(TABLE, 0, 0, 0)]
)
def test_headers_out_of_range_are_refused(header: WalHeader) -> None:
    with pytest.raises(InvalidInput, match="whole number"):
        wal.encode_header(header)


@given(st.integers(0, 2**32), st.lists(lengths, min_size=1, max_size=6), st.data())
@settings(max_examples=60)
def test_a_cut_leaves_the_entries_before_it(seed: int, sizes: list[int], data: st.DataObject) -> None:
    entries = random_entries(seed, sizes)
    whole, starts = build(entries)
    cut = data.draw(st.integers(HEADER_BYTES, len(whole) - 1))
    found = read_wal(whole[:cut], source="x.wal", final=True)
    assert found.entries == entries[: len(found.entries)]
    kept = sum(stop <= cut for stop in [*starts[1:], len(whole)])
    assert len(found.entries) == kept
    assert found.torn == (cut != found.end)
    assert read_wal(whole[: found.end], source="x.wal", final=False).entries == entries[:kept]
    if found.torn:
        with pytest.raises(Corrupt, match=f"x.wal is damaged at byte {found.end}:"):
            read_wal(whole[:cut], source="x.wal", final=False)


@given(
    st.integers(0, 2**32),
    st.lists(lengths, min_size=1, max_size=6),
    st.sets(st.integers(0, 5)),
    st.lists(st.tuples(st.integers(0), st.integers(1, 255)), min_size=1, max_size=4),
)
@settings(max_examples=100)
def test_flipped_bits_give_no_wrong_entry(
    seed: int, sizes: list[int], marks: set[int], flips: list[tuple[int, int]]
) -> None:
    entries = random_entries(seed, sizes)
    whole, _ = build(entries, tuple(marks))
    damaged = bytearray(whole)
    for place, bits in flips:
        damaged[place % len(whole)] ^= bits
    try:
        found = read_wal(bytes(damaged), source="x", final=True)
    except Corrupt:
        return
    assert found.header == HEADER
    assert found.entries == entries[: len(found.entries)]


@given(st.binary(max_size=300), st.integers(0, 40), st.booleans())
@settings(max_examples=100)
def test_garbage_is_no_entry(garbage: bytes, prefix: int, final: bool) -> None:
    entries = [b"one", b"two"]
    whole, _ = build(entries)
    for data in (garbage, wal.encode_header(HEADER)[:prefix] + garbage, whole + garbage):
        try:
            found = read_wal(data, source="x", final=final)
        except Corrupt:
            continue
        assert found.entries == entries
        assert found.end == len(whole)


def test_damage_in_the_middle_is_refused_with_its_place() -> None:
    entries = random_entries(1, [100] * 700)
    whole, starts = build(entries)
    for number in (0, 5, 305, 698):
        damaged = bytearray(whole)
        damaged[starts[number] + 50] ^= 1
        with pytest.raises(Corrupt, match=rf"x.wal is damaged at byte {starts[number]}: valid data follows at byte"):
            read_wal(bytes(damaged), source="x.wal", final=True)
    damaged = bytearray(whole)
    damaged[starts[-1] + 50] ^= 1
    found = read_wal(bytes(damaged), source="x.wal", final=True)
    assert (found.torn, found.end, found.entries) == (True, starts[-1], entries[:-1])


def test_a_damaged_length_does_not_hide_what_follows() -> None:
    entries = random_entries(2, [100] * 50)
    whole, starts = build(entries)
    damaged = bytearray(whole)
    damaged[starts[10] + 5] = 0x7F  # says that the entry fills the block
    with pytest.raises(Corrupt, match=f"byte {starts[10]}: valid data follows at byte {starts[11]}"):
        read_wal(bytes(damaged), source="x", final=True)


def test_a_tail_of_zeros_is_torn() -> None:
    entries = random_entries(3, [100] * 5)
    whole, _ = build(entries)
    found = read_wal(whole + bytes(3 * BLOCK_BYTES), source="x", final=True)
    assert (found.torn, found.end, found.entries) == (True, len(whole), entries)


def test_pages_that_never_reached_the_disk_are_a_torn_tail_unless_they_were_synced() -> None:
    """A power cut may keep a later page and lose an earlier one. Neither was promised: the log goes on before them."""
    entries = random_entries(4, [1000] * 60)
    for marks, refused in (((), False), ((5,), False), ((40,), True)):
        whole, starts = build(entries, marks)
        lost = starts[20] - starts[20] % 4096 + 4096
        damaged = whole[:lost] + bytes(8192) + whole[lost + 8192 :]
        if refused:
            with pytest.raises(Corrupt, match=r"damaged at byte \d+: the first \d+ bytes were synced"):
                read_wal(damaged, source="x", final=True)
        else:
            found = read_wal(damaged, source="x", final=True)
            kept = sum(stop <= lost for stop in starts[1:])
            assert (found.torn, found.end, found.entries) == (True, starts[kept], entries[:kept])


def test_fragments_of_another_file_do_not_count() -> None:
    """Rows may hold a copy of a log: a torn one of them is no damage."""
    inner, _ = build([b"secret"] * 30, header=WalHeader(TABLE, 3, 6, 41))
    whole, starts = build([b"first", inner])
    found = read_wal(whole[:-1], source="x", final=True)
    assert (found.entries, found.end) == ([b"first"], starts[1])
    swapped = whole[:HEADER_BYTES] + inner[HEADER_BYTES:]
    assert read_wal(swapped, source="x", final=True).entries == []


def test_fragments_out_of_order_are_refused() -> None:
    first = wal.encode_header(HEADER)
    seed = wal.seed_of(first)
    long = wal.frame(seed, HEADER_BYTES, bytes([7]) * 40_000)
    head, rest = long[: BLOCK_BYTES - HEADER_BYTES], long[BLOCK_BYTES - HEADER_BYTES :]
    full = wal.full_frame(seed, b"full")
    for data, at in ((first + rest, HEADER_BYTES), (first + head + full + rest, BLOCK_BYTES)):
        with pytest.raises(Corrupt, match=f"byte {at}: a fragment is out of order"):
            read_wal(data, source="x", final=True)
    mark = wal.frame_mark(seed, 10_000_000)
    with pytest.raises(Corrupt, match="a sync mark says more"):
        read_wal(first + mark, source="x", final=True)


def test_headers_that_cannot_be_read_are_refused() -> None:
    good, _ = build([])
    with pytest.raises(Corrupt, match="x is damaged at byte 10: its header ends"):
        read_wal(good[:10], source="x", final=True)
    with pytest.raises(Corrupt, match="begins with b'NOPE'"):
        read_wal(b"NOPE" + good[4:], source="x", final=True)
    with pytest.raises(Corrupt, match="CRC32C of its header"):
        read_wal(good[:20] + b"?" + good[21:], source="x", final=True)
    newer = good[:4] + b"\2" + good[5 : HEADER_BYTES - 4]
    newer += google_crc32c.value(newer).to_bytes(4, "little")
    with pytest.raises(Unsupported, match="x has log format 2"):
        read_wal(newer, source="x", final=True)


def test_the_example_of_the_page_is_what_the_code_writes() -> None:
    block = PAGE.read_text(encoding="utf-8").split("<!-- example -->")[1].split("```")[1]
    rows = [re.match(r"((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  |$)", line) for line in block.splitlines()]
    data = bytes.fromhex(" ".join(match[1] for match in rows if match))
    start = wal.encode_header(HEADER)
    seed = wal.seed_of(start)
    one = start + wal.full_frame(seed, b"put 1")
    assert data == one + wal.frame_mark(seed, len(one)) + wal.full_frame(seed, b"put 2")
    assert read_wal(data, source="x", final=True).entries == [b"put 1", b"put 2"]
