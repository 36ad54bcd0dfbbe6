"""Key indexes: what goes in is found at its place, what is not there is not found, and damage is never an answer."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import Corrupt, Unsupported
from moulin.formats import key_index
from moulin.formats.key_index import KeyIndex, encode_key_index, hash_keys, search_form

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "key_index.md"
FOOTER = struct.Struct("<QQQIIIHHBBHI4s")


def opened(data: bytes) -> KeyIndex:
    def fetch(start: int, length: int) -> bytes:
        assert start >= 0
        assert start + length <= len(data), "never beyond the end"
        return data[start : start + length]

    return KeyIndex(fetch, len(data), "x.keys")


def find(index: KeyIndex, key: bytes) -> tuple[int, int] | None:
    """Position and row id of a key, as a look-up finds them."""
    if not index.may_hold_one(key):
        return None
    number = index.block_of(key)
    if number < 0:
        return None
    block = index.load(number)
    place = block.find_one(key)
    if place is None:
        return None
    return block.position(place), -1 if block.row_ids is None else int(block.row_ids[place])


def find_all(index: KeyIndex, keys: pa.Array) -> dict[int, int]:
    """The position of each of the ascending keys that is there, as a flush finds them."""
    held = index.may_hold(hash_keys(keys))
    found = {}
    asked = np.flatnonzero(held)
    taken = keys.take(pa.array(asked))
    for place, number in zip(asked.tolist(), index.blocks_of(search_form(taken)).tolist(), strict=True):
        if number >= 0:
            block = index.load(number)
            hit, at = block.find(search_form(keys.slice(place, 1)))
            if hit[0]:
                found[place] = int(block.positions_at(at)[0])
    return found


def array(keys: list[bytes], width: int) -> pa.Array:
    return pa.array(keys, pa.binary(width) if width else pa.binary())


@st.composite
def sets(draw: st.DrawFn) -> tuple[int, list[bytes], list[bytes]]:
    """A width (0: any), some keys, and others."""
    width = draw(st.sampled_from([0, 1, 3, 8, 16, 24]))
    byte = st.sampled_from([0, 1, 127, 128, 255]) | st.integers(0, 255)
    one = st.lists(byte, min_size=width, max_size=width or 5).map(bytes)
    there = draw(st.sets(one, min_size=1, max_size=60))
    return width, sorted(there), sorted(draw(st.sets(one, max_size=60)) - there)


@settings(max_examples=150)
@given(sets(), st.integers(1, 9), st.booleans())
def test_every_key_is_found_at_its_place(
    case: tuple[int, list[bytes], list[bytes]], per_block: int, with_ids: bool
) -> None:
    width, keys, others = case
    ids = np.arange(len(keys), dtype=np.int64) * 7 - 1 if with_ids else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_index, "_cuts", lambda given, _: list(range(0, len(given), per_block)))
        index = opened(encode_key_index(array(keys, width), ids))
    assert index.rows == len(keys)
    assert index.blocks == -(-len(keys) // per_block)
    for place, key in enumerate(keys):
        assert find(index, key) == (place, place * 7 - 1 if with_ids and len(keys) > 1 else -1)
    for key in others:
        assert find(index, key) is None
    everything = sorted([*keys, *others])
    wanted = {everything.index(key): place for place, key in enumerate(keys)}
    assert find_all(index, array(everything, width)) == wanted
    assert find_all(index, array(everything, width).slice(1)) == {
        place - 1: at for place, at in wanted.items() if place
    }
    assert [key for key, _ in index.firsts()] == keys[::per_block]
    assert sum(count for _, count in index.firsts()) == len(keys)
    blocks = index.load_all(0, index.blocks)
    assert [block.start for block in blocks] == list(range(0, len(keys), per_block))
    for part in [b"", b"\x7f", b"\xff", *(key[:2] for key in others), *others]:
        number = index.block_of(part)
        block = index.load(max(number, 0))
        before = block.start + block.before(part) if number >= 0 else 0
        padded = part if not width else part.ljust(width, b"\0")
        assert before == sum(key < padded for key in keys)


@settings(max_examples=100)
@given(sets(), st.integers(1, 9), st.booleans(), st.randoms(use_true_random=False))
def test_keys_of_rows_in_any_order_are_found_at_their_positions(
    case: tuple[int, list[bytes], list[bytes]], per_block: int, with_ids: bool, order: random.Random
) -> None:
    width, keys, others = case
    places = order.sample(range(3 * len(keys)), len(keys))  # some positions have no entry
    ids = np.asarray(places, np.int64) * 7 if with_ids else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_index, "_cuts", lambda given, _: list(range(0, len(given), per_block)))
        index = opened(encode_key_index(array(keys, width), ids, np.asarray(places, np.int64)))
    for place, key in zip(places, keys, strict=True):
        assert find(index, key) == (place, place * 7 if with_ids else -1)
    assert not any(find(index, key) for key in others)
    everything = sorted([*keys, *others])
    wanted = {everything.index(key): place for place, key in zip(places, keys, strict=True)}
    assert find_all(index, array(everything, width)) == wanted


@settings(max_examples=100)
@given(sets())
def test_the_filter_has_no_false_negatives(case: tuple[int, list[bytes], list[bytes]]) -> None:
    width, keys, others = case
    index = opened(encode_key_index(array(keys, width), None))
    assert index.may_hold(hash_keys(array(keys, width))).all()
    assert all(index.may_hold_one(key) for key in keys)
    both = array([*keys, *others], width)
    one_by_one = [index.may_hold_one(key) for key in both.to_pylist()]
    assert index.may_hold(hash_keys(both)).tolist() == one_by_one, "one key and many ask the same bits"


def test_the_filter_turns_most_others_away() -> None:
    keys = pa.array([number.to_bytes(8, "big") for number in range(0, 20_000, 2)], pa.binary(8))
    others = pa.array([number.to_bytes(8, "big") for number in range(1, 20_000, 2)], pa.binary(8))
    index = opened(encode_key_index(keys, None))
    assert index.may_hold(hash_keys(others)).mean() < 0.05
    assert index.blocks == 3


def test_a_large_index_is_read_in_parts() -> None:
    keys = pa.array([b"%08d" % number for number in range(120_000)], pa.binary())
    data = encode_key_index(keys, np.arange(120_000) + 5)
    asked: list[tuple[int, int]] = []

    def fetch(start: int, length: int) -> bytes:
        asked.append((start, length))
        return data[start : start + length]

    index = KeyIndex(fetch, len(data), "x.keys")
    assert len(asked) == 2, "the filter is larger than what is read at first"
    assert find(index, b"00077777") == (77_777, 77_782)
    assert len(asked) == 3
    assert asked[2][1] < 64 << 10, "one block"


def test_row_ids_that_all_follow_from_positions_are_left_out() -> None:
    keys = pa.array([b"a", b"b"], pa.binary())
    assert encode_key_index(keys, np.array([-1, -1])) == encode_key_index(keys, None)
    mixed = opened(encode_key_index(keys, np.array([-1, 9])))
    assert find(mixed, b"a") == (0, -1)
    assert find(mixed, b"b") == (1, 9)


def answers(data: bytes, keys: list[bytes]) -> list[tuple[int, int] | None]:
    index = opened(data)
    return [find(index, key) for key in keys]


@settings(max_examples=200)
@given(sets(), st.data())
def test_damage_is_never_an_answer(case: tuple[int, list[bytes], list[bytes]], data: st.DataObject) -> None:
    width, keys, others = case
    placed = np.arange(len(keys), dtype=np.int64)[::-1] if data.draw(st.booleans()) else None
    good = encode_key_index(array(keys, width), np.arange(len(keys), dtype=np.int64), placed)
    asked = [*keys, *others]
    right = answers(good, asked)
    place = data.draw(st.integers(0, len(good) - 1))
    match data.draw(st.sampled_from(["flip", "cut", "grow", "drop"])):
        case "flip":
            bad = bytearray(good)
            bad[place] ^= 1 << data.draw(st.integers(0, 7))
            bad = bytes(bad)
        case "cut":
            bad = good[:place]
        case "grow":
            bad = good + data.draw(st.binary(min_size=1, max_size=80))
        case _:
            bad = good[:place] + good[place + 1 :]
    try:
        found = answers(bad, asked)
    except Corrupt:
        pass
    else:
        assert place < 8, "only the head, which no look-up reads, may be damaged unseen"
        assert found == right


@settings(max_examples=200)
@given(st.integers(0, 12), st.integers(0, 2**64 - 1), st.data())
def test_a_footer_that_lies_is_refused(field: int, value: int, data: st.DataObject) -> None:
    """With checksums that hold: what a program, not a disk, would get wrong."""
    keys = [b"%03d" % number for number in range(50)]
    good = encode_key_index(array(keys, data.draw(st.sampled_from([0, 3]))), np.arange(50, dtype=np.int64))
    parts = list(FOOTER.unpack(good[-56:-4]))
    if field == 12:
        parts[12] = b"XXXX"
    else:
        bits = [64, 64, 64, 32, 32, 32, 16, 16, 8, 8, 16, 32][field]
        parts[field] = data.draw(st.sampled_from([value % (1 << bits), 0, (parts[field] + 1) % (1 << bits)]))
    footer = FOOTER.pack(*parts)
    bad = good[:-56] + footer + struct.pack("<I", google_crc32c.value(footer))
    right = answers(good, keys)
    try:
        found = answers(bad, keys)
    except (Corrupt, Unsupported):
        pass
    else:
        assert found == right


def test_a_newer_format_is_not_damage() -> None:
    good = encode_key_index(pa.array([b"a"], pa.binary()), None)
    parts = list(FOOTER.unpack(good[-56:-4]))
    parts[9] = 4
    footer = FOOTER.pack(*parts)
    with pytest.raises(Unsupported, match="format 4"):
        opened(good[:-56] + footer + struct.pack("<I", google_crc32c.value(footer)))


def test_the_example_of_the_page_answers_like_what_the_code_writes() -> None:
    block = PAGE.read_text(encoding="utf-8").split("<!-- example -->")[1].split("```")[1]
    said = bytes.fromhex("".join(line.split("  ")[0] for line in block.strip().splitlines()))
    made = encode_key_index(pa.array([b"ab", b"cd"], pa.binary(2)), np.array([-1, 7]))
    assert answers(said, [b"ab", b"cd", b"ef"]) == answers(made, [b"ab", b"cd", b"ef"]) == [(0, -1), (1, 7), None]
    assert said[49 : 49 + 64] == made[-154:-90], "the filter; a block may be compressed to other bytes"
    assert said[-56:-32] == FOOTER.pack(49, 113, 2, *[0] * 9, b"")[:24]


def test_an_index_of_format_1_is_read() -> None:
    """The bytes that were the example of the page before format 2."""
    old = bytes.fromhex(
        "4d4b4958010000001c00000028b52ffd201ce10000020000000100000061626364ffffffffffffffff070000000000000010"
        "0004000000040100000800000000000000008000008000000000000000000000000000000000000000108000000000000002"
        "00000010000000040000000000080000000000000029000000000000000000000000000000dee0dfac000000006162310000"
        "0000000000710000000000000002000000000000004000000022000000010000000200000006010000c4619c004d4b49588e"
        "f03ec4"
    )
    assert answers(old, [b"ab", b"cd", b"ef"]) == [(0, -1), (1, 7), None]
    for footer_format in (1, 2):  # a block that is not of the format of its index is damage, whatever the checksums
        parts = list(FOOTER.unpack(old[-56:-4]))
        parts[9] = footer_format
        footer = FOOTER.pack(*parts)
        index = opened(old[:-56] + footer + struct.pack("<I", google_crc32c.value(footer)))
        if footer_format == 2:
            with pytest.raises(Corrupt):
                index.load(0)


def test_keys_that_ascend_take_few_bytes() -> None:
    rows = 100_000
    sequence = pa.array([number.to_bytes(8, "big") for number in range(rows)], pa.binary(8))
    assert len(encode_key_index(sequence, np.arange(rows, dtype=np.int64) + 5)) < 1.5 * rows, "the filter takes 1.25"


@pytest.mark.parametrize("step", [1, 7, 1000, 5000])
def test_filters_do_not_depend_on_how_many_hashes_are_probed_at_once(
    monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    hashes = np.random.default_rng(5).integers(0, 1 << 32, 5000, dtype=np.uint32)
    others = np.random.default_rng(6).integers(0, 1 << 32, 5000, dtype=np.uint32)
    whole = key_index.make_filter(hashes)
    held = key_index.filter_holds(np.frombuffer(whole, np.uint8), others)
    monkeypatch.setattr(key_index, "_PROBED", step)
    assert key_index.make_filter(hashes) == whole
    assert key_index.filter_holds(np.frombuffer(whole, np.uint8), hashes).all()
    assert np.array_equal(key_index.filter_holds(np.frombuffer(whole, np.uint8), others), held)
