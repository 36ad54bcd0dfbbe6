"""A search over the bytes of pages gives the rows of the plain filter, and never hides a page that is damaged."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from moulin.errors import Corrupt
from moulin.formats.segment.decoder import Decoder
from moulin.formats.segment.opened import OpenedFile
from moulin.formats.segment.reader import SegmentReader
from moulin.formats.segment.writer import SegmentWriter
from moulin.model.file_settings import FileSettings
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import LongType, NestedField, Schema, StringType
from moulin.model.where import parse_where

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "note", StringType()), NestedField(3, "kind", StringType())
)
ROWS = 3000


def rows(seed: int = 1) -> pa.Table:
    random = np.random.default_rng(seed)
    words = ["paid", "späť", "", "gift", "%_", "a\\b"]
    notes = [
        None if random.random() < 0.1 else f"{words[random.integers(len(words))]} {random.integers(1_000_000)}"
        for _ in range(ROWS)
    ]
    kinds = [words[index] for index in random.integers(0, len(words), ROWS)]
    return pa.table([pa.array(range(ROWS)), notes, kinds], schema=arrow_schema(SCHEMA))


def stored(table: pa.Table, *, level: int = 1, codec: str | None = None) -> bytes:
    sink = io.BytesIO()
    tuned = FileSettings(page_rows=50, row_group_rows=1200, codec=codec)
    writer = SegmentWriter(sink, schema=SCHEMA, level=level, settings=tuned)
    writer.write(table)
    writer.finish()
    return sink.getvalue()


FILES = {
    "plain": stored(rows(), level=0),
    "zstd": stored(rows()),
    "snappy": stored(rows(), codec="snappy"),
    "gzip": stored(rows(), codec="gzip"),
}


def opened(data: bytes) -> Decoder:
    source = pa.BufferReader(data)
    return Decoder(source, OpenedFile(source, "the file"), verify=True, trust=False)


@pytest.mark.parametrize("file", ["plain", "zstd", "snappy"])
def test_pages_without_the_bytes_are_left_out(file: str) -> None:
    wanted = rows().column("note").to_pylist()[1777]
    found = opened(FILES[file]).containing([0, 1, 2], 1, wanted.encode())
    assert found is not None
    assert 1777 in found
    assert len(found) <= 150  # of three pages at the most, should the number stand elsewhere, too


def test_what_cannot_be_searched_or_stands_everywhere_is_left_to_the_decoder() -> None:
    assert opened(FILES["gzip"]).containing([0, 1, 2], 1, b"1") is None
    assert opened(FILES["zstd"]).containing([0, 1, 2], 2, b"gift") is None  # a dictionary
    assert opened(FILES["zstd"]).containing([0, 1, 2], 1, b"gift") is None


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    file=st.sampled_from(sorted(FILES)),
    pattern=st.lists(st.sampled_from([*"%_0123456789 paidäťg", r"\%", r"\_", r"\\"]), min_size=1, max_size=6).map(
        "".join
    )
    | st.from_regex(r"%[0-9]{3,5}%", fullmatch=True),
    extra=st.sampled_from(["", " and id > 1000", " and note like '%9'", " and kind = 'gift'", " or id = 5"]),
    deleted=st.none() | st.sets(st.integers(0, ROWS - 1), max_size=300),
    span=st.none() | st.tuples(st.integers(0, ROWS), st.integers(0, ROWS)),
)
def test_a_like_gives_the_rows_of_the_plain_filter(
    file: str, pattern: str, extra: str, deleted: set[int] | None, span: tuple[int, int] | None
) -> None:
    predicate = parse_where(f"note like '{pattern}'{extra}", SCHEMA)
    start, stop = (0, None) if span is None else (min(span), max(span))
    found = []
    for by_pages in (True, False):
        with SegmentReader(pa.BufferReader(FILES[file]), SCHEMA) as reader:
            options = {"start": start, "stop": stop, "by_pages": by_pages, "position": True}
            found.append(
                reader.table(predicate=predicate, deleted=None if deleted is None else BitMap64(deleted), **options)
            )
    assert found[0] == found[1]


@pytest.mark.parametrize("file", ["plain", "zstd"])
def test_a_flipped_bit_is_an_error_or_changes_nothing(file: str) -> None:
    data, table = FILES[file], rows()
    predicate = parse_where(f"note like '%{table.column('note').to_pylist()[1777][-5:]}%'", SCHEMA)
    with SegmentReader(pa.BufferReader(data), SCHEMA) as reader:
        expected = reader.table(predicate=predicate)
    assert expected.num_rows
    chunk = OpenedFile(pa.BufferReader(data), "the file").map.chunk(1, 1)
    failed = 0
    random = np.random.default_rng(5)
    for byte in [*range(chunk.start, chunk.start + 60), *random.integers(chunk.start, chunk.start + chunk.size, 150)]:
        damaged = bytearray(data)
        damaged[byte] ^= 1 << int(random.integers(8))
        with SegmentReader(pa.BufferReader(bytes(damaged)), SCHEMA) as reader:
            try:
                found = reader.table(predicate=predicate)
            except Corrupt:
                failed += 1
            else:
                assert found == expected, byte
    assert failed > 100


def test_a_chunk_that_was_searched_and_right_is_not_checked_again_where_files_are_known() -> None:
    source = pa.BufferReader(FILES["zstd"])
    footer = OpenedFile(source, "the file")
    first = Decoder(source, footer, verify=True, trust=True).containing([0], 1, b"no such text")
    assert first is not None
    assert (0, 1) in footer.verified
    damaged = bytearray(FILES["zstd"])
    chunk = footer.map.chunk(1, 1)
    damaged[chunk.start + chunk.size // 2] ^= 1
    source = pa.BufferReader(bytes(damaged))
    found = Decoder(source, footer, verify=True, trust=True).containing([1], 1, b"no such text")
    assert found is not None
    assert len(found) == 50  # the page whose checksum is wrong
    assert (1, 1) not in footer.verified
