"""The changes of a publish."""

from __future__ import annotations

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.catalog.commit.publishing import TablePublication
from moulin.meta.codec.id import from_message_id
from moulin.meta.codec.lake.commit import from_message_commit, to_message_commit


def to_message_publication(part: TablePublication) -> pb.TablePublication:
    return pb.TablePublication(
        own_id=str(part.own_id),
        head=part.head,
        commit=to_message_commit(part.commit),
        moved=part.moved,
        adopted=part.adopted,
    )


def from_message_publication(m: pb.TablePublication) -> TablePublication:
    own_id, commit = from_message_id(m.own_id, "own_id"), from_message_commit(m.commit)
    return TablePublication(own_id, m.head, commit, m.moved, tuple(m.adopted))
