"""Merge tasks for workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moulin._proto.moulin.meta.v1 import common_pb2 as pb
from moulin.meta.codec.meta.address import to_message_prefix
from moulin.meta.codec.meta.segment import to_message_input
from moulin.meta.codec.meta.table import to_message_sharding
from moulin.model.facts import LiveSegment
from moulin.model.merge_task import ClaimedTask
from moulin.storage import paths
from moulin.storage.store import Store


def to_message_claimed(
    store: Store, claimed: ClaimedTask, inputs: Iterable[LiveSegment], properties: Mapping[str, str]
) -> pb.SegmentMergeTaskInfo:
    """A claimed task with its inputs; `properties` are those of the table."""
    return pb.SegmentMergeTaskInfo(
        task_id=str(claimed.claim.task_id),
        table_id=str(claimed.table_id),
        segments=[to_message_input(store, claimed.table_id, segment) for segment in inputs],
        cloud_object_prefix=to_message_prefix(store, paths.data_prefix(claimed.table_id)),
        sharding_fields=to_message_sharding(properties),
        attempt=claimed.claim.attempt,
        lease_until_unix_ns=claimed.lease_until,
        level=claimed.level,
        first_segment_number=claimed.first_number,
        segment_numbers=claimed.numbers,
        read_version=claimed.read_version,
    )
