from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from moulin.errors import Corrupt, InvalidInput
from moulin.formats import deletion_vector as dv

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "deletion_vector.md"

near = st.integers(0, 200_000)
far = st.integers(0, 2**63 - 1)
runs = st.tuples(near, st.integers(1, 9_000)).map(lambda pair: range(pair[0], pair[0] + pair[1]))
position_sets = st.builds(
    lambda singles, ranges: sorted({*singles, *(position for run in ranges for position in run)}),
    st.lists(near | far, max_size=60),
    st.lists(runs, max_size=3),
)


def seal(vector: bytes) -> bytes:
    """A blob of this vector with a right length and CRC, whatever the vector is."""
    body = dv.MAGIC + vector
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def one_bitmap(bitmap: bytes, key: int = 0) -> bytes:
    return struct.pack("<QI", 1, key) + bitmap


def every_kind_of_container() -> BitMap64:
    """Array, bitset and run containers, in a bitmap with an offset table and in one without."""
    bitmap = BitMap64([1, 5, 70_000, 2**32 + 3])
    bitmap |= BitMap64(range(131_072, 145_000, 2))
    bitmap.add_range(200_000, 250_000)
    bitmap.add_range(300_000, 300_500)
    bitmap.add_range(2**32 + 100, 2**32 + 900)
    return bitmap


def test_the_example_of_the_page_is_what_the_code_writes() -> None:
    block = PAGE.read_text().split("<!-- example -->")[1].split("```")[1]
    stored = bytes.fromhex("".join(line[:48] for line in block.strip().splitlines()))
    assert stored == dv.encode(np.array([0, 3, 2**32 + 7]))
    assert list(dv.decode(stored)) == [0, 3, 2**32 + 7]


def test_a_blob_is_length_magic_vector_and_crc() -> None:
    blob = dv.encode(BitMap64([7]))
    assert struct.unpack(">I", blob[:4])[0] == len(blob) - 8
    assert blob[4:8] == bytes.fromhex("d1d33964")
    assert struct.unpack(">I", blob[-4:])[0] == zlib.crc32(blob[4:-4])
    assert struct.unpack("<QI", blob[8:20]) == (1, 0)
    assert list(BitMap.deserialize(blob[20:-4])) == [7]


@settings(deadline=None)
@given(position_sets)
def test_what_is_encoded_is_decoded(positions: list[int]) -> None:
    array = np.array(positions, dtype=np.int64)
    blob = dv.encode(array)
    decoded = dv.decode(blob)
    assert np.array_equal(dv.to_array(decoded), array)
    assert dv.encode(decoded) == blob


def test_every_form_of_the_same_positions_gives_the_same_bytes() -> None:
    positions = np.array([9, 3, 3, 70_000], dtype=np.int64)
    blob = dv.encode(BitMap64([3, 9, 70_000]))
    assert dv.encode(BitMap([3, 9, 70_000])) == blob
    assert dv.encode(positions) == blob
    assert dv.encode(positions.astype(np.uint32)) == blob
    assert dv.encode(np.repeat(positions, 2)[::2]) == blob


def test_runs_are_stored_as_runs_and_the_given_vector_is_left_alone() -> None:
    bitmap = BitMap64(list(range(10_000)), optimize=False)
    before = bitmap.serialize()
    assert len(before) > 8_000
    assert len(dv.encode(bitmap)) < 50
    assert bitmap.serialize() == before


@pytest.mark.parametrize("bad", [np.array([-1]), np.array([1.5]), np.array([2**63], np.uint64), np.array([[1]])])
def test_what_is_no_position_is_refused(bad: np.ndarray) -> None:
    with pytest.raises(InvalidInput):
        dv.encode(bad)


def test_a_bitmap_beyond_2_to_the_63_is_refused() -> None:
    with pytest.raises(InvalidInput, match="9223372036854775808"):
        dv.encode(BitMap64([2**63]))


def test_every_flipped_byte_and_every_cut_is_refused() -> None:
    blob = dv.encode(np.array([0, 3, 9, 10, 11, 12, 2**32 + 7]))
    for at in range(len(blob)):
        for bit in (0, 7):
            with pytest.raises(Corrupt):
                dv.decode(blob[:at] + bytes([blob[at] ^ 1 << bit]) + blob[at + 1 :])
        with pytest.raises(Corrupt):
            dv.decode(blob[:at])
    with pytest.raises(Corrupt, match="length field"):
        dv.decode(blob + b"\0")


def test_messages_name_the_source_and_what_failed() -> None:
    blob = dv.encode(np.array([1]))
    with pytest.raises(Corrupt, match=r"x\.puffin is damaged: .*CRC32"):
        dv.decode(blob[:-1] + bytes([blob[-1] ^ 1]), source="x.puffin")


def test_a_position_past_the_rows_is_refused() -> None:
    blob = dv.encode(np.array([1, 10]))
    assert len(dv.decode(blob, rows=11)) == 2
    with pytest.raises(Corrupt, match="position 10 of a segment of 10 rows"):
        dv.decode(blob, rows=10)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_forged_bytes_with_a_right_crc_never_give_an_unordered_vector(data: st.DataObject) -> None:
    vector = bytearray(every_kind_of_container().serialize())
    structure = st.integers(0, 80) | st.integers(0, len(vector) - 1)
    for _ in range(data.draw(st.integers(1, 4))):
        vector[data.draw(structure)] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(vector)) | st.just(len(vector)))
    try:
        decoded = dv.decode(seal(bytes(vector[:cut])))
    except Corrupt:
        return
    positions = dv.to_array(decoded)
    assert len(positions) == len(decoded)
    assert (np.diff(positions) > 0).all()


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_noise_with_a_right_frame_is_refused_or_a_set(noise: bytes) -> None:
    try:
        decoded = dv.decode(seal(noise))
    except Corrupt:
        return
    assert np.array_equal(dv.to_array(dv.decode(dv.encode(decoded))), dv.to_array(decoded))


def array_container(*values: int, cardinality: int | None = None, offset: int = 16) -> bytes:
    header = struct.pack("<IIHHI", 12346, 1, 0, (cardinality or len(values)) - 1, offset)
    return header + struct.pack(f"<{len(values)}H", *values)


def run_container(cardinality: int, *pairs: int) -> bytes:
    return struct.pack(f"<IBHHH{len(pairs)}H", 12347, 1, 0, cardinality - 1, len(pairs) // 2, *pairs)


BITSET = struct.pack("<IIHHI", 12346, 1, 0, 4999, 16)
FORGED = {
    "values that do not ascend": one_bitmap(array_container(5, 3)),
    "values that repeat": one_bitmap(array_container(3, 3)),
    "a bitset of fewer bits than it says": one_bitmap(BITSET + b"\xff" * 600 + bytes(8_192 - 600)),
    "a bitset of more bits than it says": one_bitmap(BITSET + b"\xff" * 8_192),
    "runs that overlap": one_bitmap(run_container(6, 0, 3, 2, 1)),
    "runs that touch": one_bitmap(run_container(4, 0, 1, 2, 1)),
    "a run past the container": one_bitmap(run_container(3, 65_534, 2)),
    "no run at all": one_bitmap(run_container(1)),
    "runs of another cardinality": one_bitmap(run_container(3, 0, 3)),
    "an offset to elsewhere": one_bitmap(array_container(3, offset=18)),
    "a strange cookie": one_bitmap(struct.pack("<II", 12345, 0)),
    "too many containers": one_bitmap(struct.pack("<II", 12346, 65_537)),
    "2**32 - 1 containers": one_bitmap(struct.pack("<II", 12346, 2**32 - 1)),
    "a count of runs cut off": one_bitmap(struct.pack("<IBHHB", 12347, 1, 0, 0, 1)),
    "an array cut off": one_bitmap(array_container(1, cardinality=2)),
    "2**64 - 1 bitmaps": struct.pack("<Q", 2**64 - 1) + bytes(40),
    "more bitmaps than there are": struct.pack("<QI", 2, 0) + array_container(1) + bytes(8),
    "a key of 2**31": one_bitmap(array_container(1), key=2**31),
    "keys that do not ascend": struct.pack("<Q", 2) + 2 * (struct.pack("<I", 1) + array_container(1)),
    "bytes after the last bitmap": one_bitmap(array_container(1)) + b"\0",
    "container keys that repeat": one_bitmap(struct.pack("<II4H2I2H", 12346, 2, 0, 0, 0, 0, 24, 26, 1, 2)),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_vector_with_a_right_crc_is_refused(what: str) -> None:
    with pytest.raises(Corrupt):
        dv.decode(seal(FORGED[what]))


def test_the_forgeries_differ_from_valid_vectors_only_in_what_they_forge() -> None:
    assert list(dv.decode(seal(one_bitmap(array_container(3, 5))))) == [3, 5]
    assert list(dv.decode(seal(one_bitmap(run_container(5, 0, 2, 4, 1))))) == [0, 1, 2, 4, 5]
    assert len(dv.decode(seal(one_bitmap(BITSET + b"\xff" * 625 + bytes(8_192 - 625))))) == 5_000


def test_an_empty_bitmap_below_a_later_key_is_read_as_other_engines_write_it() -> None:
    vector = struct.pack("<QI", 2, 0) + struct.pack("<II", 12346, 0) + struct.pack("<I", 1) + array_container(4)
    assert list(dv.decode(seal(vector))) == [2**32 + 4]


def test_an_empty_vector_marks_nothing() -> None:
    empty = dv.decode(dv.encode(BitMap64()))
    assert not empty
    assert dv.to_array(empty).tolist() == []
    assert dv.keep_mask(empty, 0, 10) is None
    assert dv.words(empty, 65).tolist() == [0, 0]
    assert dv.from_positions(np.array([])) == empty


@settings(deadline=None)
@given(position_sets, st.integers(0, 250_000), st.integers(0, 100_000))
def test_slices_and_masks_agree_with_plain_sets(positions: list[int], start: int, rows: int) -> None:
    bitmap = dv.from_positions(np.array(positions, dtype=np.int64))
    inside = [position for position in positions if start <= position < start + rows]
    assert dv.to_array(bitmap, start, start + rows).tolist() == inside
    assert dv.to_array(bitmap, start).tolist() == [position for position in positions if position >= start]
    keep = dv.keep_mask(bitmap, start, rows)
    if not inside:
        assert keep is None
    else:
        assert keep is not None
        assert len(keep) == rows
        assert (np.flatnonzero(~keep) + start).tolist() == inside


@settings(deadline=None)
@given(st.lists(st.booleans() | st.none(), max_size=200), st.integers(0, 2**40))
def test_a_mask_marks_what_is_true_and_null_is_not(mask: list[bool | None], offset: int) -> None:
    expected = [offset + i for i, value in enumerate(mask) if value]
    column = pa.array(mask, pa.bool_())
    chunked = pa.chunked_array([column[:3], column[3:]])
    plain = np.array([bool(value) for value in mask], dtype=np.bool_)
    for form in (column, chunked, plain):
        assert dv.to_array(dv.from_mask(form, offset)).tolist() == expected


def test_what_is_no_mask_is_refused() -> None:
    for bad in (pa.array([1]), np.array([1]), np.array([[True]])):
        with pytest.raises(InvalidInput, match="mask"):
            dv.from_mask(bad)


@settings(deadline=None)
@given(st.sets(st.integers(0, 999), min_size=1), st.integers(0, 200))
def test_words_hold_position_i_in_bit_i_of_a_dense_bitmap(positions: set[int], more: int) -> None:
    rows = max(positions) + 1 + more
    words = dv.words(BitMap64(positions), rows)
    assert words.dtype == np.int64
    assert len(words) == -(-rows // 64)
    assert {i for i in range(len(words) * 64) if int(words[i >> 6]) >> (i & 63) & 1} == positions


def test_words_of_too_few_rows_are_refused() -> None:
    with pytest.raises(InvalidInput, match="position 64 of a segment of 64 rows"):
        dv.words(BitMap64([64]), 64)
