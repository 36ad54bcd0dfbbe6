"""Tables, their sharding fields, and what refers to them."""

from __future__ import annotations

from collections.abc import Mapping

from moulin._proto.moulin.meta.v1 import common_pb2
from moulin._proto.moulin.meta.v1 import table_pb2 as pb
from moulin.catalog.objects.references import References
from moulin.meta.codec.meta.tombstone import to_message_tombstone
from moulin.model import table_settings as settings
from moulin.model.entities import TableEntry


def to_message_table(entry: TableEntry, merge_span: float) -> pb.Table:
    return pb.Table(
        id=str(entry.id),
        name=entry.name,
        database_id=str(entry.database_id),
        retention_ns=settings.retention_ns(entry.properties),
        max_merge_time_span_ns=settings.merge_span_override_ns(entry.properties),
        effective_max_merge_time_span_ns=settings.merge_span_ns(entry.properties, merge_span),
        tombstone=to_message_tombstone(entry.tombstone),
    )


def to_message_sharding(properties: Mapping[str, str]) -> list[common_pb2.ShardingField]:
    fields = settings.sharding_fields(properties)
    return [common_pb2.ShardingField(field_name=field.name, weight=field.weight) for field in fields]


def to_message_references(references: References) -> pb.TableReferences:
    return pb.TableReferences(
        views=[
            pb.ViewReference(
                id=str(view.id),
                name=view.name,
                other_members=[pb.TableRef(id=str(member.id), name=member.name) for member in view.other_members],
            )
            for view in references.views
        ],
        ingest_tokens=[
            pb.IngestTokenReference(id=str(token.id), name=token.name, signals=token.signals)
            for token in references.tokens
        ],
    )
