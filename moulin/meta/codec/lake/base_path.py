"""Base paths."""

from __future__ import annotations

from uuid import UUID

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.model.entities import BasePath


def to_message_base_path(base: BasePath) -> pb.BasePath:
    return pb.BasePath(id=str(base.id), name=base.name, uri=base.uri, created_at=base.created_at)


def from_message_base_path(m: pb.BasePath) -> BasePath:
    return BasePath(UUID(m.id), m.name, m.uri, m.created_at)
