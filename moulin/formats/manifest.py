"""Manifests: bytes <-> protobuf values, and segments <-> their references. See docs/formats/manifest.md.

    "MRUB" | format byte: 1 full, 2 delta | payload length, little-endian u32 | payload: a protobuf Manifest

The payload ends with field 199, the CRC-32 of what precedes it in the payload.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

from moulin.errors import Corrupt, Unsupported
from moulin.formats import messages as pb
from moulin.model.facts import AdoptedFile, ColumnFacts, ColumnFile, LiveSegment, SegmentFacts, VectorFacts

MAGIC = b"MRUB"
FULL = 1
DELTA = 2
_HEADER = struct.Struct("<4sBI")
_CHECKSUM_TAG = b"\xbd\x0c"  # field 199, fixed32
_CHECKSUM_SIZE = len(_CHECKSUM_TAG) + 4

# DO NOT CHANGE: feature bits are stored in manifests.
FEATURE_DELETION_VECTORS = 1
FEATURE_ROW_LINEAGE = 2
FEATURE_QUERY_VIEWS = 4
FEATURE_INLINE_SEGMENTS = 8
FEATURE_BASES = 16
FEATURE_COLUMN_FILES = 32
FEATURE_BASE_PATHS = 64
FEATURE_ERASURES = 128
FEATURE_BRANCHES = 256
FEATURE_BITMAP_INDEXES = 512
FEATURE_REGION_SPECS = 1024
COMMON_FEATURES = FEATURE_DELETION_VECTORS | FEATURE_ROW_LINEAGE
"""What every manifest asks of its readers and writers. A feature that few lakes use is asked for where it is used."""
KNOWN_FEATURES = (
    COMMON_FEATURES
    | FEATURE_QUERY_VIEWS
    | FEATURE_INLINE_SEGMENTS
    | FEATURE_BASES
    | FEATURE_COLUMN_FILES
    | FEATURE_BASE_PATHS
    | FEATURE_ERASURES
    | FEATURE_BRANCHES
    | FEATURE_BITMAP_INDEXES
    | FEATURE_REGION_SPECS
)

EXISTING, ADDED, DELETED = 0, 1, 2
BASES_PREFIX = "bases/"
"""What the path of a segment below a base path begins with. DO NOT CHANGE: manifests hold such paths."""


@dataclass(frozen=True, slots=True)
class DecodedManifest:
    """A manifest, and whether it is full; `writable` is False when a writer feature is not known here."""

    manifest: pb.Manifest
    full: bool
    writable: bool


def encode(manifest: pb.Manifest, *, full: bool) -> bytes:
    """The bytes of a manifest; unknown fields that it was read with are kept."""
    manifest.ClearField("checksum")
    body: bytes = manifest.SerializeToString(deterministic=True)
    payload = body + _CHECKSUM_TAG + struct.pack("<I", zlib.crc32(body))
    return _HEADER.pack(MAGIC, FULL if full else DELTA, len(payload)) + payload


def require_feature(manifest: pb.Manifest, feature: int) -> None:
    """Require a feature for readers and writers of this manifest."""
    manifest.reader_features |= feature
    manifest.writer_features |= feature


def require_base_paths(manifest: pb.Manifest, paths: Iterable[str]) -> None:
    """Require base paths for readers of this manifest, if a file of `paths` is in one."""
    if manifest.adopted_files or any(path.startswith(BASES_PREFIX) for path in paths):
        require_feature(manifest, FEATURE_BASE_PATHS)


def decode(data: bytes, name: str) -> DecodedManifest:
    """The manifest in `data`; Corrupt when a byte is wrong or missing, Unsupported when it takes a newer moulin."""
    if len(data) < _HEADER.size:
        raise Corrupt(f"Manifest {name} is cut short: {len(data)} bytes, less than its header.")
    magic, form, length = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise Corrupt(f"Manifest {name} does not start with MRUB.")
    if form not in (FULL, DELTA):
        raise Unsupported(f"Manifest {name} has format {form}, which this version does not know; upgrade moulin.")
    payload = data[_HEADER.size :]
    if len(payload) != length:
        raise Corrupt(f"Manifest {name} should have {length} bytes after its header and has {len(payload)}.")
    body = payload[:-_CHECKSUM_SIZE]
    if payload[len(body) : len(body) + 2] == _CHECKSUM_TAG:
        if struct.unpack("<I", payload[-4:])[0] != zlib.crc32(body):
            raise Corrupt(f"Manifest {name} does not match its checksum.")
    else:
        body = payload
    manifest = pb.Manifest()
    try:
        manifest.ParseFromString(body)
    except pb.DecodeError:
        raise Corrupt(f"Manifest {name} is not a readable manifest.") from None
    if body is payload and manifest.version:
        raise Corrupt(f"Manifest {name} has lost its checksum.")
    if unknown := manifest.reader_features & ~KNOWN_FEATURES:
        raise Unsupported(f"Manifest {name} needs reader features {unknown:#x}, unknown here; upgrade moulin.")
    return DecodedManifest(manifest, form == FULL, not manifest.writer_features & ~KNOWN_FEATURES)


def encode_columns(
    columns: Iterable[ColumnFacts],
    split_offsets: Iterable[int],
    inline: bytes | None = None,
    adopted: AdoptedFile | None = None,
) -> pb.SegmentColumns:
    """Column facts as stored in manifests and in the catalog, with what inline and adopted segments need besides."""
    stored = pb.SegmentColumns()
    _set_columns(stored, columns, split_offsets, inline, adopted)
    return stored


def _set_columns(
    stored: pb.SegmentColumns,
    columns: Iterable[ColumnFacts],
    split_offsets: Iterable[int],
    inline: bytes | None,
    adopted: AdoptedFile | None,
) -> None:
    """Fill a message in its place: one that is put into another is copied."""
    add = stored.columns.add
    for c in columns:
        add(field_id=c.field_id, values=c.values, nulls=c.nulls, nans=c.nans, size=c.size, lower=c.lower, upper=c.upper)
    stored.split_offsets.extend(split_offsets)
    if inline:
        stored.inline = inline
    if adopted is not None:
        _set_adopted(stored.adopted, adopted)


def _set_adopted(stored: pb.AdoptedFile, adopted: AdoptedFile) -> None:
    stored.owner = adopted.owner.bytes
    stored.field_ids.extend(adopted.field_ids)
    for number, value in adopted.constants:
        stored.constants.add(field_id=number, value=value)
    stored.modified_ns = adopted.modified_ns
    stored.etag = adopted.etag
    stored.hidden_keys.extend(adopted.hidden_keys)
    stored.other_ids = adopted.other_ids
    stored.location = adopted.location
    stored.unread = adopted.unread


def decode_adopted(stored: pb.SegmentColumns) -> AdoptedFile | None:
    """How to read an adopted file; None for a segment that is not one."""
    if not stored.HasField("adopted"):
        return None
    m = stored.adopted
    if len(m.owner) != 16:  # a UUID
        raise Corrupt("An adopted segment does not say which table adopted it: run `moulin check`.")
    constants = tuple((one.field_id, one.value if one.HasField("value") else None) for one in m.constants)
    return AdoptedFile(
        UUID(bytes=m.owner),
        tuple(m.field_ids),
        constants,
        m.modified_ns,
        m.etag,
        tuple(m.hidden_keys),
        m.other_ids,
        m.location,
        m.unread,
    )


def decode_columns(stored: pb.SegmentColumns, wanted: Collection[int] | None = None) -> tuple[ColumnFacts, ...]:
    """The inverse of `encode_columns`, without the split offsets; of all fields, or of those whose ids are `wanted`."""
    return tuple(
        ColumnFacts(
            c.field_id,
            c.values,
            c.nulls,
            c.nans or (0 if c.HasField("nans") else None),
            c.size,
            c.lower or (b"" if c.HasField("lower") else None),
            c.upper or (b"" if c.HasField("upper") else None),
        )
        for c in stored.columns
        if wanted is None or c.field_id in wanted
    )


def segment_to_ref(
    segment: LiveSegment, status: int, make: Callable[..., pb.DataFileRef] | None = None
) -> pb.DataFileRef:
    """A segment with all its facts and its deletion vector. `make` may put it where it belongs, which spares a copy."""
    facts = segment.facts
    elsewhere = {column.field_id for file in facts.files for column in file.columns}
    own = (column for column in facts.columns if column.field_id not in elsewhere) if elsewhere else facts.columns
    ref = (make or pb.DataFileRef)(
        path=facts.path,
        file_size=facts.size,
        num_rows=facts.rows,
        level=facts.level,
        seq_min=segment.sequence if facts.seq_min is None else facts.seq_min,
        seq_max=segment.sequence if facts.seq_max is None else facts.seq_max,
        key_min=facts.key_min or b"",
        key_max=facts.key_max or b"",
        status=status,
        format=0,
        number=facts.number,
        schema_id=facts.schema_id,
        spec_id=facts.spec_id,
        partition=[pb.PartitionValue(value=value) for value in facts.partition],
        sort_order_id=facts.sort_order_id,
        region=facts.region,
        index_size=facts.index_size,
        sha256=facts.sha256,
        time_min=facts.time_min,
        time_max=facts.time_max,
        has_lineage=facts.has_lineage,
        first_row_id=segment.first_row_id,
        sequence=segment.sequence,
        added_version=segment.added_version,
    )
    ref.columns.SetInParent()
    _set_columns(ref.columns, own, facts.split_offsets, facts.inline, facts.adopted)
    if segment.vector:
        set_vector(ref, segment.vector)
    if segment.columns_id:
        set_columns(ref, segment.columns_id, facts.files)
    return ref


def set_columns(ref: pb.DataFileRef, columns_id: int, files: Iterable[ColumnFile]) -> None:
    """Say of `ref` which column files its segment has."""
    ref.columns_id = columns_id
    ref.column_files.extend(map(encode_file, files))


def encode_file(file: ColumnFile) -> pb.ColumnFileRef:
    """A column file as stored in manifests and in the catalog."""
    return pb.ColumnFileRef(
        segment=file.segment,
        path=file.path,
        file_size=file.size,
        sha256=file.sha256,
        field_ids=file.fields,
        columns=encode_columns(file.columns, ()),
    )


def decode_file(ref: pb.ColumnFileRef) -> ColumnFile:
    """The inverse of `encode_file`."""
    columns = decode_columns(ref.columns)
    return ColumnFile(ref.segment, ref.path, ref.file_size, ref.sha256, tuple(ref.field_ids), columns)


def set_vector(ref: pb.DataFileRef, vector: VectorFacts) -> None:
    """Point `ref` to its deletion vector."""
    ref.dv_path, ref.dv_offset, ref.dv_length = vector.path, vector.offset, vector.length
    ref.dv_id, ref.dv_cardinality = vector.id, vector.cardinality


def ref_to_segment(ref: pb.DataFileRef) -> LiveSegment:
    """The inverse of `segment_to_ref`."""
    files = tuple(map(decode_file, ref.column_files))
    facts = SegmentFacts(
        number=ref.number,
        path=ref.path,
        rows=ref.num_rows,
        size=ref.file_size,
        level=ref.level,
        schema_id=ref.schema_id,
        spec_id=ref.spec_id,
        partition=tuple(p.value if p.HasField("value") else None for p in ref.partition),
        sha256=ref.sha256,
        columns=decode_columns(ref.columns) + tuple(column for file in files for column in file.columns),
        time_min=ref.time_min if ref.HasField("time_min") else None,
        time_max=ref.time_max if ref.HasField("time_max") else None,
        has_lineage=ref.has_lineage,
        seq_min=ref.seq_min if ref.has_lineage else None,
        seq_max=ref.seq_max if ref.has_lineage else None,
        key_min=ref.key_min or None,
        key_max=ref.key_max or None,
        sort_order_id=ref.sort_order_id,
        split_offsets=tuple(ref.columns.split_offsets),
        region=ref.region,
        index_size=ref.index_size,
        inline=ref.columns.inline or None,
        files=files,
        adopted=decode_adopted(ref.columns),
    )
    return LiveSegment(facts, ref.first_row_id, ref.sequence, ref.added_version, ref_to_vector(ref), ref.columns_id)


def ref_to_vector(ref: pb.DataFileRef) -> VectorFacts | None:
    """The deletion vector that `ref` points to, if any."""
    if not ref.dv_id:
        return None
    return VectorFacts(ref.dv_id, ref.number, ref.dv_path, ref.dv_offset, ref.dv_length, ref.dv_cardinality)
