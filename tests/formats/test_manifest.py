"""Manifests byte by byte: framing, field numbers, checksum, what is kept and what is refused."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moulin._proto.moulin.format.v1 import manifest_pb2 as pb
from moulin.errors import Corrupt, MoulinError, Unsupported
from moulin.formats import manifest as codec
from moulin.model.facts import ColumnFacts, LiveSegment, SegmentFacts, VectorFacts


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def integer(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def chunk(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def framed(form: int, body: bytes) -> bytes:
    payload = body + b"\xbd\x0c" + struct.pack("<I", zlib.crc32(body))
    return b"MRUB" + bytes([form]) + struct.pack("<I", len(payload)) + payload


# Fields 1 to 24 as merutable numbers them, then our own from 100 on, in the order of their numbers.
DATA_FILE = (
    chunk(1, b"a.parquet") + integer(2, 4096) + integer(3, 10) + integer(4, 2) + integer(5, 7) + integer(6, 9)
    + chunk(7, b"k1") + chunk(8, b"k9") + chunk(9, b"d.puffin") + integer(10, 4) + integer(11, 44) + integer(12, 1)
    + integer(13, 0) + integer(100, 77) + integer(102, 1) + chunk(103, chunk(1, b"eu")) + chunk(103, b"")
    + integer(107, -5) + integer(113, 3)
)  # fmt: skip
BODY = (
    integer(1, 11) + integer(2, 12) + integer(3, 13) + integer(4, 14) + chunk(5, DATA_FILE)
    + chunk(6, chunk(1, b"p") + integer(2, 5) + integer(3, 1)) + integer(7, 10)
    + chunk(8, b"0f8fad5b-d9cb-469f-a165-70867728950e") + integer(9, 1_700_000_000_000)
    + chunk(10, chunk(1, b"key") + chunk(2, b"value")) + integer(11, 6) + integer(100, 21) + integer(101, 3)
    + integer(102, 3) + chunk(103, b"\x01" * 16) + integer(104, 1) + integer(105, 1_700_000_000_000_000_000)
    + chunk(106, b"append") + chunk(107, b"\x02" * 16) + integer(108, 1)
)  # fmt: skip


def golden() -> pb.Manifest:
    return pb.Manifest(
        snapshot_id=11,
        sequence_number=12,
        schema_id=13,
        partition_spec_id=14,
        data_files=[
            pb.DataFileRef(
                path="a.parquet",
                file_size=4096,
                num_rows=10,
                level=2,
                seq_min=7,
                seq_max=9,
                key_min=b"k1",
                key_max=b"k9",
                dv_path="d.puffin",
                dv_offset=4,
                dv_length=44,
                status=codec.ADDED,
                format=0,
                number=77,
                spec_id=1,
                partition=[pb.PartitionValue(value=b"eu"), pb.PartitionValue()],
                time_min=-5,
                dv_id=3,
            )
        ],
        delete_files=[pb.DeleteFileRef(path="p", file_size=5, content=1)],
        previous_snapshot_id=10,
        table_uuid="0f8fad5b-d9cb-469f-a165-70867728950e",
        last_updated_ms=1_700_000_000_000,
        properties={"key": "value"},
        last_column_id=6,
        version=21,
        reader_features=3,
        writer_features=3,
        lake_uuid=b"\x01" * 16,
        incarnation=1,
        timestamp_ns=1_700_000_000_000_000_000,
        kind="append",
        tables=[b"\x02" * 16],
        lake=True,
    )


@pytest.mark.parametrize("full", [True, False])
def test_the_bytes_of_a_manifest_never_change(full: bool) -> None:
    data = framed(1 if full else 2, BODY)
    assert codec.encode(golden(), full=full) == data
    decoded = codec.decode(data, "m")
    assert (decoded.manifest, decoded.full, decoded.writable) == (golden(), full, True)


def test_the_header_holds_magic_format_and_length_and_the_end_a_checksum() -> None:
    data = codec.encode(pb.Manifest(version=1), full=False)
    assert data[:5] == b"MRUB\x02"
    assert int.from_bytes(data[5:9], "little") == len(data) - 9
    assert data[-6:-4] == b"\xbd\x0c"
    assert int.from_bytes(data[-4:], "little") == zlib.crc32(data[9:-6])


# Every field of the seed: name, number, type and whether its presence is kept. DO NOT CHANGE: lakes carry these
# numbers.
SEED = {
    "DataFileRef": {
        "path": (1, "string", False), "file_size": (2, "int64", False), "num_rows": (3, "int64", False),
        "level": (4, "int32", False), "seq_min": (5, "int64", False), "seq_max": (6, "int64", False),
        "key_min": (7, "bytes", False), "key_max": (8, "bytes", False), "dv_path": (9, "string", True),
        "dv_offset": (10, "int64", True), "dv_length": (11, "int64", True), "status": (12, "int32", False),
        "format": (13, "int32", True),
    },
    "DeleteFileRef": {"path": (1, "string", False), "file_size": (2, "int64", False), "content": (3, "int32", False)},
    "Manifest": {
        "snapshot_id": (1, "int64", False), "sequence_number": (2, "int64", False), "schema_id": (3, "int32", False),
        "partition_spec_id": (4, "int32", False), "previous_snapshot_id": (7, "int64", True),
        "table_uuid": (8, "string", False), "last_updated_ms": (9, "int64", False),
        "last_column_id": (11, "int32", False), "data_files": (5, "DataFileRef", False),
        "delete_files": (6, "DeleteFileRef", False), "properties": (10, "PropertiesEntry", False),
    },
}  # fmt: skip

TYPES = {3: "int64", 5: "int32", 9: "string", 12: "bytes"}


@pytest.mark.parametrize("name", SEED)
def test_field_numbers_never_change(name: str) -> None:
    descriptor = pb.DESCRIPTOR.message_types_by_name[name]
    found = {
        field.name: (
            field.number,
            field.message_type.name if field.message_type else TYPES[field.type],
            field.message_type is None and field.has_presence,
        )
        for field in descriptor.fields
        if field.number < 100
    }
    assert found == SEED[name]
    assert all(field.number >= 100 for field in descriptor.fields if field.name not in SEED[name])


def test_manifests_of_merutable_are_read() -> None:
    """Without our fields there is no checksum to check."""
    body = integer(1, 5) + chunk(5, chunk(1, b"a.parquet"))
    decoded = codec.decode(b"MRUB\x01" + struct.pack("<I", len(body)) + body, "m")
    assert (decoded.manifest.snapshot_id, decoded.manifest.data_files[0].path, decoded.full) == (5, "a.parquet", True)


def test_unknown_fields_are_kept() -> None:
    stranger = chunk(190, b"from the future") + integer(9000, 5)
    inside = DATA_FILE + chunk(150, b"in a file")
    body = BODY.replace(chunk(5, DATA_FILE), chunk(5, inside)) + stranger
    decoded = codec.decode(framed(2, body), "m")
    decoded.manifest.kind = "changed"
    again = codec.encode(decoded.manifest, full=False)
    assert chunk(150, b"in a file") in again
    assert stranger in again
    assert again.endswith(b"\xbd\x0c" + struct.pack("<I", zlib.crc32(again[9:-6]))), "the checksum stays the last field"
    assert codec.decode(again, "m").manifest.kind == "changed"


@pytest.mark.parametrize("form", [0, 3, 255])
def test_unknown_formats_are_refused(form: int) -> None:
    with pytest.raises(Unsupported, match="m.delta has format"):
        codec.decode(framed(form, BODY), "m.delta")


def test_unknown_reader_features_are_refused() -> None:
    with pytest.raises(Unsupported, match="0x10000"):
        codec.decode(framed(2, BODY + integer(101, 0x10003)), "m")


def test_unknown_writer_features_allow_reading_only() -> None:
    decoded = codec.decode(framed(2, BODY + integer(102, 0x10003)), "m")
    assert not decoded.writable
    assert decoded.manifest.version == 21


@pytest.mark.parametrize("full", [True, False])
def test_every_truncation_is_found(full: bool) -> None:
    data = codec.encode(golden(), full=full)
    for length in range(len(data)):
        with pytest.raises(Corrupt, match="m.delta"):
            codec.decode(data[:length], "m.delta")
    with pytest.raises(Corrupt):
        codec.decode(data + b"\0", "m")


@pytest.mark.parametrize("full", [True, False])
def test_every_flipped_bit_is_found(full: bool) -> None:
    data = codec.encode(golden(), full=full)
    for place in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises((Corrupt, Unsupported)):
            codec.decode(bytes(damaged), "m")


@given(st.binary(max_size=200))
def test_any_bytes_give_a_typed_error(data: bytes) -> None:
    for attempt in (data, b"MRUB\x01" + data, framed(2, data)):
        with suppress(MoulinError):
            codec.decode(attempt, "m")


texts = st.text(max_size=12)
numbers = st.integers(0, 2**62)
optional_bytes = st.none() | st.binary(max_size=12)
columns = st.builds(
    ColumnFacts,
    field_id=st.integers(1, 2**31 - 1),
    values=numbers,
    nulls=numbers,
    nans=st.none() | numbers,
    size=numbers,
    lower=optional_bytes,
    upper=optional_bytes,
)


@st.composite
def segments(draw: st.DrawFn) -> LiveSegment:
    lineage = draw(st.booleans())
    timed = draw(st.booleans())
    facts = SegmentFacts(
        number=draw(numbers),
        path=draw(texts),
        rows=draw(numbers),
        size=draw(numbers),
        level=draw(st.integers(0, 100)),
        schema_id=draw(st.integers(0, 1000)),
        spec_id=draw(st.integers(0, 1000)),
        partition=tuple(draw(st.lists(optional_bytes, max_size=3))),
        sha256=draw(st.binary(min_size=32, max_size=32)),
        columns=tuple(draw(st.lists(columns, max_size=3))),
        time_min=draw(st.integers(-(2**63), 2**63 - 1)) if timed else None,
        time_max=draw(st.integers(-(2**63), 2**63 - 1)) if timed else None,
        has_lineage=lineage,
        seq_min=draw(numbers) if lineage else None,
        seq_max=draw(numbers) if lineage else None,
        key_min=draw(st.none() | st.binary(min_size=1, max_size=5)),
        key_max=draw(st.none() | st.binary(min_size=1, max_size=5)),
        sort_order_id=draw(st.integers(0, 9)),
        split_offsets=tuple(draw(st.lists(numbers, max_size=3))),
    )
    vector = None
    if draw(st.booleans()):
        vector = VectorFacts(draw(st.integers(1, 2**62)), facts.number, draw(texts), *(draw(numbers) for _ in range(3)))
    return LiveSegment(facts, draw(numbers), draw(numbers), draw(numbers), vector)


@given(segments(), st.sampled_from([codec.EXISTING, codec.ADDED, codec.DELETED]))
def test_segments_come_back_from_a_manifest(segment: LiveSegment, status: int) -> None:
    manifest = pb.Manifest(version=1, data_files=[codec.segment_to_ref(segment, status)])
    (ref,) = codec.decode(codec.encode(manifest, full=True), "m").manifest.data_files
    assert ref.status == status
    assert codec.ref_to_segment(ref) == segment


def test_row_sequences_of_files_without_lineage_are_the_commit_s() -> None:
    facts = SegmentFacts(1, "p", 1, 1, 0, 0, 0, (), bytes(32))
    ref = codec.segment_to_ref(LiveSegment(facts, 0, 42, 7), codec.ADDED)
    assert (ref.seq_min, ref.seq_max, ref.added_version) == (42, 42, 7)


def test_only_the_chosen_columns_are_decoded() -> None:
    stored = codec.encode_columns([ColumnFacts(n, n, 0) for n in range(5)], [4])
    assert [c.field_id for c in codec.decode_columns(stored, {1, 3, 9})] == [1, 3]
    assert [c.field_id for c in codec.decode_columns(stored)] == [0, 1, 2, 3, 4]


def test_the_page_names_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats" / "manifest.md").read_text(encoding="utf-8")
    for message in pb.DESCRIPTOR.message_types_by_name.values():
        for field in message.fields:
            assert f"| {field.number} | `{field.name}` |" in page, f"{message.name}.{field.name}"


def test_the_example_of_the_page_is_what_the_code_writes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats" / "manifest.md").read_text(encoding="utf-8")
    example = page.split("## Example")[1].split("```")[1]
    data = bytes.fromhex("".join(line.split("   ")[0] for line in example.strip().splitlines()))
    assert data == codec.encode(pb.Manifest(version=1, kind="x"), full=False)
