"""Versions of a table: the result of a commit."""

from __future__ import annotations

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.model.entities import CommitInfo


def to_message_commit_info(info: CommitInfo) -> pb.CommitInfo:
    return pb.CommitInfo(
        version=info.version,
        ordinal=info.ordinal,
        timestamp_ns=info.timestamp_ns,
        kind=str(info.kind),
        schema_id=info.schema_id,
        spec_id=info.spec_id,
        sequence=info.sequence,
        snapshot_id=info.snapshot_id,
        first_row_id=info.first_row_id,
        added_rows=info.added_rows,
        summary=dict(info.summary),
    )


def from_message_commit_info(m: pb.CommitInfo) -> CommitInfo:
    return CommitInfo(
        m.version,
        m.ordinal,
        m.timestamp_ns,
        m.kind,
        m.schema_id,
        m.spec_id,
        m.sequence,
        m.snapshot_id,
        m.first_row_id,
        m.added_rows,
        dict(m.summary),
    )
