"""Files of secondary indexes: what is written is found, and no damaged byte goes unseen."""

from __future__ import annotations

import math
import struct
from decimal import Context, Decimal
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import Corrupt, InvalidInput, MoulinError, Unsupported
from moulin.formats import index_bitmaps
from moulin.formats import secondary_index as codec
from moulin.formats.key_index import hash_keys
from moulin.formats.secondary_index import (
    CoveredSegment,
    IndexFile,
    IndexKind,
    SegmentHashes,
    encode_bitmaps,
    encode_bloom,
    encode_sorted,
    filter_holds,
)
from moulin.model.key.index_value import LONGEST, cut, encode_literal, encode_values, encoding_of, width_of
from moulin.model.schema.arrow import arrow_type
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    UUIDType,
)

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "secondary_index.md"


def opened(data: bytes) -> IndexFile:
    return IndexFile(lambda start, length: data[start : start + length], len(data), "x.index")


def sorted_example() -> bytes:
    """The values 5, 3 and 5 in segments 7 and 9 of three and two rows."""
    values = encode_values(pa.array([5, 3, 5], pa.int64()), LongType())
    covered = [CoveredSegment(7, 3), CoveredSegment(9, 2)]
    return encode_sorted(2, covered, values, np.array([0, 0, 1]), np.array([0, 2, 1]))


def bloom_example() -> bytes:
    """Segment 7 has three rows, the second of them null."""
    hashes = hash_keys(encode_values(pa.array([5, 3], pa.int64()), LongType()))
    return encode_bloom(2, [CoveredSegment(7, 3)], [SegmentHashes(np.array([0, 2]), hashes)])


def bitmap_example() -> bytes:
    """Two rows of segment 7 have 5, one has 3; of the twenty rows of segment 9 all have 5."""
    values = encode_values(pa.array([5, 3, 5] + 20 * [5], pa.int64()), LongType())
    covered = [CoveredSegment(7, 300), CoveredSegment(9, 20)]
    indexes, positions = np.array([0, 0, 0] + 20 * [1]), np.array([0, 2, 299, *range(20)])
    return encode_bitmaps(IndexKind.BITMAP, 2, covered, values, indexes, positions)


def find_bitmaps(file: IndexFile, low: bytes | None, high: bytes | None) -> set[tuple[int, int]]:
    found = []
    for number, spans in file.chunks_of([(low, high)]).items():
        chunk = file.load_bitmaps(number)
        rows = chunk.rows(spans[0])
        for entry in range(rows.start, rows.stop):
            segment = int(file.numbers[chunk.indexes[entry]])
            found += [(segment, position) for position in chunk.positions(entry).tolist()]
    return set(found)


def find(file: IndexFile, low: bytes | None, high: bytes | None) -> set[tuple[int, int]]:
    found = []
    for number, spans in file.chunks_of([(low, high)]).items():
        chunk = file.load_sorted(number)
        rows = chunk.rows(spans[0])
        found += zip(file.numbers[chunk.indexes[rows]].tolist(), chunk.positions[rows].tolist(), strict=True)
    assert len(found) == len(set(found))
    return set(found)


def test_the_examples_of_the_page_are_what_the_code_writes() -> None:
    blocks = [part.split("```")[1] for part in PAGE.read_text().split("<!-- example -->")[1:]]
    for block, written in zip(blocks, (sorted_example(), bloom_example(), bitmap_example()), strict=True):
        stored = bytes.fromhex("".join(line[:48] for line in block.strip().splitlines()))
        # The frames are those of one zstd release: another may write other bytes of the same meaning.
        assert len(stored) == len(written)
        for data in (stored, written):
            opened(data).verify()
        assert opened(stored).numbers.tolist() == opened(written).numbers.tolist()
    file = opened(bitmap_example())
    assert find_bitmaps(file, *2 * [encode_literal(LongType(), 5)]) == {(7, 0), (7, 299), *((9, n) for n in range(20))}
    file = opened(sorted_example())
    assert find(file, *2 * [encode_literal(LongType(), 5)]) == {(7, 0), (9, 1)}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2), st.integers(0, 400)), max_size=300),
    st.sampled_from([0, 1, 8]),
    st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=3)), min_size=1, max_size=5),
)
def test_every_span_of_values_is_found(
    entries: list[tuple[bytes, int, int]], width: int, spans: list[tuple[bytes, bytes]]
) -> None:
    def fit(value: bytes) -> bytes:
        return value[:width].ljust(width, b"\0") if width else value

    distinct = {(place, position): fit(value) for value, place, position in entries}
    values = pa.array(list(distinct.values()), pa.binary(width) if width else pa.binary())
    places, positions = (np.array([key[side] for key in distinct], np.int64) for side in (0, 1))
    covered = [CoveredSegment(10 + n, 401) for n in range(3)]
    patch = pytest.MonkeyPatch()
    with patch.context() as small:
        small.setattr(codec, "_CHUNK_BYTES", 64)  # as many chunks as there can be
        file = opened(encode_sorted(9, covered, values, places, positions))
    file.verify()
    for low, high in [*spans, (b"", b"\xff" * 8)]:
        low, high = fit(low), fit(high)
        wanted = {(10 + place, position) for (place, position), v in distinct.items() if low <= v <= high}
        assert find(file, low, high) == wanted
        assert find(file, low, None) >= wanted
        assert find(file, None, high) >= wanted


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.binary(max_size=2), st.integers(0, 2), st.integers(0, 60)), max_size=300),
    st.sampled_from([0, 1, 8]),
    st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=3)), min_size=1, max_size=5),
)
def test_every_span_of_bitmaps_is_found(
    entries: list[tuple[bytes, int, int]], width: int, spans: list[tuple[bytes, bytes]]
) -> None:
    """A row may have several values, and a value twice."""

    def fit(value: bytes) -> bytes:
        return value[:width].ljust(width, b"\0") if width else value

    values = pa.array([fit(value) for value, _, _ in entries], pa.binary(width) if width else pa.binary())
    indexes, positions = (np.array([entry[side] for entry in entries], np.int64) for side in (1, 2))
    covered = [CoveredSegment(10 + n, 61) for n in range(3)]
    with pytest.MonkeyPatch().context() as small:
        small.setattr(index_bitmaps, "_CHUNK_BYTES", 64)  # as many chunks as there can be
        file = opened(encode_bitmaps(IndexKind.LABEL_LIST, 9, covered, values, indexes, positions))
    file.verify()
    for low, high in [*spans, (b"", b"\xff" * 8)]:
        low, high = fit(low), fit(high)
        wanted = {(10 + index, position) for value, index, position in entries if low <= fit(value) <= high}
        assert find_bitmaps(file, low, high) == wanted
        assert find_bitmaps(file, low, None) >= wanted


def test_values_that_repeat_over_many_chunks_are_all_found() -> None:
    values = encode_values(pa.array([1] * 5000 + [2] * 9000 + [3] * 5000, pa.int64()), LongType())
    file = opened(encode_sorted(2, [CoveredSegment(1, 19000)], values, np.zeros(19000, int), np.arange(19000)))
    assert file.chunks > 3
    two = encode_literal(LongType(), 2)
    assert find(file, two, two) == {(1, n) for n in range(5000, 14000)}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.none() | st.integers(-5, 5), max_size=40), min_size=1, max_size=4))
def test_a_bloom_file_forgets_no_value(segments: list[list[int | None]]) -> None:
    covered, entries = [], []
    for number, values in enumerate(segments):
        kept = np.array([n for n, value in enumerate(values) if value is not None], np.int64)
        hashes = hash_keys(encode_values(pa.array([v for v in values if v is not None], pa.int64()), LongType()))
        covered.append(CoveredSegment(number, len(values)))
        entries.append(SegmentHashes(kept, hashes))
    file = opened(encode_bloom(2, covered, entries))
    file.verify()
    for number, found in enumerate(entries):
        assert filter_holds(file.load_filter(number), found.hashes).all()
        stored = file.load_hashes(number)
        assert stored.positions.tolist() == found.positions.tolist()
        assert stored.hashes.tolist() == found.hashes.tolist()


def test_a_filter_rules_out_most_other_values() -> None:
    hashes = hash_keys(encode_values(pa.array(range(20_000), pa.int64()), LongType()))
    file = opened(encode_bloom(2, [CoveredSegment(1, 10_000)], [SegmentHashes(np.arange(10_000), hashes[:10_000])]))
    assert filter_holds(file.load_filter(1), hashes[10_000:]).mean() < 0.05


@pytest.mark.parametrize(
    "data", [sorted_example(), bloom_example(), bitmap_example()], ids=["btree", "bloom", "bitmap"]
)
def test_every_damaged_byte_is_refused(data: bytes) -> None:
    opened(data).verify()
    for at in range(len(data)):
        for flipped in (data[at] ^ 1, data[at] ^ 0x80):
            with pytest.raises((Corrupt, Unsupported)):
                opened(data[:at] + bytes([flipped]) + data[at + 1 :]).verify()
    for end in range(len(data)):
        with pytest.raises((Corrupt, Unsupported)):
            opened(data[:end]).verify()
    with pytest.raises(Corrupt):
        opened(b"\0" + data).verify()
    with pytest.raises(Corrupt):
        opened(data + b"\0").verify()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=60), st.integers(0, 2), st.integers(0, 4), st.integers(0, 9))
def test_a_footer_with_a_right_checksum_and_wrong_numbers_is_refused(
    body: bytes, more: bytes, segments: int, kind: int, width: int
) -> None:
    import google_crc32c

    chunks = len(more) % 3
    directory = more
    footer = struct.pack(
        "<QQIIIHBBII4s", len(body), 1, len(directory), segments, chunks, width, kind, 2, 1,
        google_crc32c.value(directory), b"MSIX",
    )  # fmt: skip
    data = body + directory + footer + struct.pack("<I", google_crc32c.value(footer))
    with pytest.raises(MoulinError):
        opened(data).verify()


def test_a_newer_format_is_not_taken_for_damage() -> None:
    import google_crc32c

    data = bytearray(sorted_example())
    footer = data[-48:-4]
    footer[32:36] = struct.pack("<I", 2)
    data[-48:] = footer + struct.pack("<I", google_crc32c.value(bytes(footer)))
    with pytest.raises(Unsupported, match="newer"):
        opened(bytes(data))


def test_what_a_file_is_not_is_not_read_from_it() -> None:
    with pytest.raises(InvalidInput):
        opened(sorted_example()).load_filter(7)
    with pytest.raises(InvalidInput):
        opened(bloom_example()).load_sorted(0)
    with pytest.raises(InvalidInput):
        encode_bloom(2, [CoveredSegment(1, 0)] * 2, [SegmentHashes(np.arange(0), np.arange(0, dtype=np.uint32))] * 2)


FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf])
COLUMNS: list[tuple[IcebergType, st.SearchStrategy[object]]] = [
    (BooleanType(), st.booleans()),
    (IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    (LongType(), st.integers(-(2**63), 2**63 - 1)),
    (StringType(), st.text(max_size=200)),
    (BinaryType(), st.binary(max_size=200)),
    (FixedType(200), st.binary(min_size=200, max_size=200)),
    (UUIDType(), st.uuids()),
    (DecimalType(38, 2), st.decimals(-(10**30), 10**30, places=2)),
    (DoubleType(), st.floats()),
    (FloatType(), FLOATS),
]


def predicate_key(kind: IcebergType, value: object) -> object:
    if isinstance(kind, DecimalType):
        assert isinstance(value, Decimal)
        return int(value.scaleb(2, Context(prec=60)))
    if isinstance(value, UUID):
        return value.bytes
    return value


def rank(value: object) -> object:
    """Floats as Spark orders them: NaN is one value, above all others."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value


@pytest.mark.parametrize(("kind", "values"), COLUMNS, ids=lambda given: str(given) if "(" in str(given) else None)
def test_encoded_values_keep_their_order(kind: IcebergType, values: st.SearchStrategy[object]) -> None:
    @settings(max_examples=40, deadline=None)
    @given(st.lists(values, min_size=2, max_size=10))
    def check(drawn: list[object]) -> None:
        stored = [value.bytes if isinstance(value, UUID) else value for value in drawn]
        arrow = pa.binary(16) if isinstance(kind, UUIDType) else arrow_type(kind)
        encoded = encode_values(pa.array(stored, arrow), kind)
        assert pa.types.is_fixed_size_binary(encoded.type) == bool(width_of(kind))
        kept = encoded.to_pylist()
        assert kept == [encode_literal(kind, predicate_key(kind, value)) for value in drawn]
        assert all(len(value) <= LONGEST for value in cut(encoded).to_pylist())
        for a, b, x, y in zip(drawn, drawn[1:], kept, kept[1:], strict=False):
            first, second = (rank(v.bytes if isinstance(v, UUID) else v) for v in (a, b))
            if isinstance(first, str) and isinstance(second, str):
                first, second = first.encode(), second.encode()
            assert (x < y) == (first < second)  # type: ignore[operator]
            assert (x == y) == (first == second)

    assert encoding_of(kind) is not None
    check()
