"""Secondary indexes."""

from __future__ import annotations

from uuid import UUID

from moulin._proto.moulin.format.v1 import manifest_pb2 as format_pb
from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.catalog.commit.indexes import Coverage, IndexSize, index_entry
from moulin.model.entities import Index


def to_message_index_info(index: Index, size: IndexSize | None) -> pb.IndexInfo:
    info = pb.IndexInfo(index=index_entry(index))
    if size is not None:
        info.files, info.bytes, info.segments = size.files, size.bytes, size.segments
    return info


def from_message_index(m: format_pb.Index) -> Index:
    created_at = m.created_at if m.HasField("created_at") else None
    return Index(UUID(bytes=m.id), m.name, m.kind, m.field_id, m.created_version, created_at)


def to_message_coverage(found: Coverage) -> pb.Covering:
    return pb.Covering(index=index_entry(found.index), path=found.path, size=found.size, segments=found.segments)


def from_message_coverage(m: pb.Covering) -> Coverage:
    return Coverage(from_message_index(m.index), m.path, m.size, tuple(m.segments))
