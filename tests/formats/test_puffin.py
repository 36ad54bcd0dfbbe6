from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyroaring import BitMap64

from moulin.errors import Corrupt, InvalidInput, MoulinError, Unsupported
from moulin.formats import puffin
from moulin.formats.puffin import BlobExtent, DeletionVectorBlob

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "puffin.md"
EXAMPLE = [DeletionVectorBlob("s3://lake/a.parquet", BitMap64([0, 3]))]


def a_file() -> tuple[bytes, list[BlobExtent]]:
    second = BitMap64([2, 4, 6])
    second.add_range(100, 4_000)
    return puffin.write_puffin([*EXAMPLE, DeletionVectorBlob("b ü.parquet", second)])


def with_footer(footer: object, flags: bytes = bytes(4)) -> bytes:
    payload = footer if isinstance(footer, bytes) else json.dumps(footer).encode()
    return b"PFA1" + bytes(40) + b"PFA1" + payload + struct.pack("<i", len(payload)) + flags + b"PFA1"


def test_the_example_of_the_page_is_what_the_code_writes() -> None:
    block = PAGE.read_text().split("<!-- example -->")[1].split("```")[1]
    stored = bytes.fromhex("".join(line[:48] for line in block.strip().splitlines()))
    assert stored == puffin.write_puffin(EXAMPLE)[0]


def test_the_footer_says_what_iceberg_demands() -> None:
    data, places = a_file()
    size = struct.unpack("<i", data[-12:-8])[0]
    footer = json.loads(data[-12 - size : -12])
    assert footer["properties"] == {"created-by": "Moulin"}
    assert footer["blobs"][1] == {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": places[1].offset,
        "length": places[1].length,
        "properties": {"referenced-data-file": "b ü.parquet", "cardinality": "3903"},
    }
    assert places[0].offset == 4
    assert places[1].offset == 4 + places[0].length
    assert places[1].cardinality == 3_903


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
        st.sets(st.integers(0, 3_000) | st.integers(2**32, 2**32 + 50) | st.integers(2**33, 2**33 + 5), min_size=1),
        max_size=4,
    )
)
def test_pyiceberg_reads_the_same_positions(files: dict[str, set[int]]) -> None:
    data, _ = puffin.write_puffin([DeletionVectorBlob(name, BitMap64(found)) for name, found in files.items()])
    vectors = deletion_vectors_from_puffin_file(PuffinFile(data))
    read = {
        vector.referenced_data_file: {(key << 32) + low for key, bitmap in enumerate(vector._bitmaps) for low in bitmap}
        for vector in vectors
    }
    assert read == files


def test_pyiceberg_gives_out_positions_beyond_2_to_the_32() -> None:
    data, _ = puffin.write_puffin([DeletionVectorBlob("a", BitMap64([1, 5, 2**32 + 9]))])
    (vector,) = deletion_vectors_from_puffin_file(PuffinFile(data))
    assert vector.to_vector().to_pylist() == [1, 5, 2**32 + 9]


def test_what_is_written_is_read() -> None:
    data, places = a_file()
    read = puffin.read_deletion_vectors(data)
    assert [place for _, place in read] == places
    assert [blob.referenced_data_file for blob, _ in read] == ["s3://lake/a.parquet", "b ü.parquet"]
    for blob, place in read:
        assert puffin.read_blob(data, place.offset, place.length) == blob.positions
    assert list(read[0][0].positions) == [0, 3]


def test_a_file_without_blobs_is_a_file() -> None:
    data, places = puffin.write_puffin([], created_by="Moulin 7")
    assert places == []
    assert puffin.read_puffin_footer(data) == puffin.PuffinFooter((), {"created-by": "Moulin 7"})


def test_blobs_of_other_types_are_listed_and_not_read_as_vectors() -> None:
    sketch = {"type": "apache-datasketches-theta-v1", "fields": [1, 2], "snapshot-id": 5, "sequence-number": 6}
    data = with_footer({"blobs": [{**sketch, "offset": 4, "length": 40, "compression-codec": "zstd"}]})
    (blob,) = puffin.read_puffin_footer(data).blobs
    assert (blob.fields, blob.snapshot_id, blob.compression_codec, blob.properties) == ((1, 2), 5, "zstd", {})
    assert puffin.read_deletion_vectors(data) == []


def test_a_vector_that_marks_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"a\.parquet marks no position"):
        puffin.write_puffin([DeletionVectorBlob("a.parquet", BitMap64())])


def test_two_vectors_of_one_file_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at most one"):
        puffin.write_puffin([*EXAMPLE, *EXAMPLE])


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Unicode"):
        puffin.write_puffin([DeletionVectorBlob("\ud800", BitMap64([1]))])


def test_a_flipped_byte_is_refused_or_changes_no_position() -> None:
    data, places = a_file()
    vectors = [blob.positions for blob, _ in puffin.read_deletion_vectors(data)]
    body_end = places[-1].offset + places[-1].length
    for at in range(len(data)):
        for bit in (0, 5):
            damaged = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            try:
                read = puffin.read_deletion_vectors(damaged)
            except (Corrupt, Unsupported):
                continue
            # What is left is a change of text in the footer: a name, or the type of a blob, which then is no vector.
            assert at >= body_end + 4
            assert all(any(blob.positions == vector for vector in vectors) for blob, _ in read)
            by_place = [puffin.read_blob(damaged, place.offset, place.length) for place in places]
            assert by_place == vectors


def test_every_cut_is_refused() -> None:
    data, _ = a_file()
    for size in range(len(data)):
        with pytest.raises(Corrupt):
            puffin.read_deletion_vectors(data[:size])
    with pytest.raises(Corrupt):
        puffin.read_deletion_vectors(data + b"\0")


ENTRY = {"type": "t", "fields": [1], "snapshot-id": -1, "sequence-number": -1, "offset": 4, "length": 40}
BAD_FOOTERS: dict[str, object] = {
    "not JSON": b"{",
    "not UTF-8": b'{"blobs": [], "properties": {"a": "\xff"}}',
    "nested without end": b"[" * 100_000,
    "an integer without end": b'{"blobs": [' + b"9" * 10_000 + b"]}",
    "an array": [],
    "no blobs": {"properties": {}},
    "blobs that are no list": {"blobs": {}},
    "a blob that is no object": {"blobs": [1]},
    "properties that are no strings": {"blobs": [], "properties": {"a": 1}},
    "no type": {"blobs": [{k: v for k, v in ENTRY.items() if k != "type"}]},
    "a field that is no integer": {"blobs": [{**ENTRY, "fields": [True]}]},
    "an offset in the magic": {"blobs": [{**ENTRY, "offset": 3}]},
    "an offset that is text": {"blobs": [{**ENTRY, "offset": "4"}]},
    "a negative length": {"blobs": [{**ENTRY, "length": -1}]},
    "a length into the footer": {"blobs": [{**ENTRY, "length": 41}]},
    "a codec that is no string": {"blobs": [{**ENTRY, "compression-codec": 1}]},
}


@pytest.mark.parametrize("what", BAD_FOOTERS)
def test_a_bad_footer_is_refused(what: str) -> None:
    assert len(puffin.read_puffin_footer(with_footer({"blobs": [ENTRY]})).blobs) == 1
    with pytest.raises(Corrupt):
        puffin.read_puffin_footer(with_footer(BAD_FOOTERS[what]))


def test_a_compressed_footer_is_not_supported() -> None:
    with pytest.raises(Unsupported, match="01000000"):
        puffin.read_puffin_footer(with_footer({"blobs": []}, flags=b"\1\0\0\0"))


@pytest.mark.parametrize("size", [-1, 2**31 - 1, 49])
def test_a_footer_size_that_does_not_fit_is_refused(size: int) -> None:
    data = with_footer({"blobs": []})
    with pytest.raises(Corrupt):
        puffin.read_puffin_footer(data[:-12] + struct.pack("<i", size) + data[-8:])


def test_a_footer_that_contradicts_its_vector_is_refused() -> None:
    data, _ = puffin.write_puffin(EXAMPLE)
    with pytest.raises(Corrupt, match="marks 2 rows"):
        puffin.read_deletion_vectors(data.replace(b'"cardinality":"2"', b'"cardinality":"3"'))
    with pytest.raises(Corrupt, match="marks 2 rows"):
        puffin.read_deletion_vectors(data.replace(b"referenced-data-file", b"Referenced-data-file"))


@pytest.mark.parametrize(("offset", "length"), [(3, 44), (4, 10**9), (-4, 44), (4, -1), (5, 44), (4, 43)])
def test_a_wrong_place_is_refused(offset: int, length: int) -> None:
    data, (place,) = puffin.write_puffin(EXAMPLE)
    assert (place.offset, place.length) == (4, 44)
    with pytest.raises(Corrupt, match=r"x\.puffin"):
        puffin.read_blob(data, offset, length, source="x.puffin")


def test_a_place_may_be_checked_against_the_rows_of_its_segment() -> None:
    data, (place,) = puffin.write_puffin(EXAMPLE)
    assert len(puffin.read_blob(data, place.offset, place.length, rows=4)) == 2
    with pytest.raises(Corrupt, match="position 3 of a segment of 3 rows"):
        puffin.read_blob(data, place.offset, place.length, rows=3)


@settings(deadline=None)
@given(st.binary(max_size=80), st.binary(max_size=40))
def test_noise_is_refused(noise: bytes, footer: bytes) -> None:
    for data in (noise, with_footer(footer)):
        with pytest.raises(MoulinError):
            puffin.read_puffin_footer(data)


def test_many_vectors_in_one_file_are_each_read_alone() -> None:
    rng = np.random.default_rng(3)
    blobs = [DeletionVectorBlob(f"{i}.parquet", BitMap64(rng.integers(0, 10**6, 1 + i).tolist())) for i in range(200)]
    data, places = puffin.write_puffin(blobs)
    assert [puffin.read_blob(data, place.offset, place.length) for place in places] == [b.positions for b in blobs]
