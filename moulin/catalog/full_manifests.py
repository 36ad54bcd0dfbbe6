"""Full manifests: the whole state of a table, or of the lake, at one version. They bound how many deltas a reader replays."""

from __future__ import annotations

import json
from uuid import UUID

import sqlalchemy as sa

from moulin._proto.moulin.format.v1 import manifest_pb2 as pb
from moulin.catalog import schema as s
from moulin.catalog import segments, tables
from moulin.catalog.draft import database_entry, start_manifest, table_entry, view_entry
from moulin.catalog.engine import Engine
from moulin.formats import manifest as codec
from moulin.storage import paths

FULL = "full"


def build(engine: Engine, lake_uuid: UUID, table_id: UUID | None) -> tuple[str, bytes]:
    """Path and bytes of a full manifest of the newest version, from one snapshot."""
    with engine.read() as connection:
        lake = connection.execute(sa.select(s.lake)).one()
        if table_id is None:
            version, manifest = _lake(connection, lake_uuid, lake)
            return paths.lake_manifest(version, "full"), codec.encode(manifest, full=True)
        manifest = _table(connection, lake_uuid, lake.incarnation, table_id)
    return paths.table_manifest(table_id, manifest.version, "full"), codec.encode(manifest, full=True)


def mark_written(engine: Engine, table_id: UUID | None) -> None:
    """Start counting deltas anew."""
    with engine.unordered() as connection:
        if table_id is None:
            connection.execute(s.counter.update().values(deltas=0))
        else:
            connection.execute(s.tables.update().where(s.tables.c.id == table_id).values(deltas=0))


def _table(connection: sa.Connection, lake_uuid: UUID, incarnation: int, table_id: UUID) -> pb.Manifest:
    row = connection.execute(sa.select(s.tables).where(s.tables.c.id == table_id)).one()
    version = row.head_version
    c = s.table_commits
    last = connection.execute(
        sa.select(c).where(c.c.table_id == table_id, c.c.version == version).order_by(c.c.ordinal.desc()).limit(1)
    ).one()
    manifest = start_manifest(lake_uuid, incarnation, version, last.timestamp_ns, FULL, codec.KNOWN_FEATURES)
    manifest.table_uuid = str(table_id)
    manifest.tables.append(table_id.bytes)
    manifest.snapshot_id = last.snapshot_id
    tables.fill_state(manifest, row)
    for name, source in (
        ("schemas", s.table_schemas),
        ("specs", s.table_specs),
        ("sort_orders", s.table_sort_orders),
    ):
        settings = connection.execute(sa.select(source.c[1], source.c.json).where(source.c.table_id == table_id))
        getattr(manifest.table, name).extend(pb.Setting(id=setting[0], json=setting[1]) for setting in settings)
    manifest.commits.append(
        pb.Commit(
            version=version,
            ordinal=last.ordinal,
            timestamp_ns=last.timestamp_ns,
            kind=last.kind,
            schema_id=last.schema_id,
            spec_id=last.spec_id,
            sort_order_id=last.sort_order_id,
            sequence=last.sequence,
            snapshot_id=last.snapshot_id,
            first_row_id=last.first_row_id,
            added_rows=last.added_rows,
            properties_json=json.dumps(dict(row.properties), sort_keys=True),
            summary_json=json.dumps(dict(last.summary), sort_keys=True),
        )
    )
    sequences = connection.execute(
        sa.select(c.c.sequence, sa.func.min(c.c.version)).where(c.c.table_id == table_id).group_by(c.c.sequence)
    )
    manifest.sequence_versions.update({sequence: first for sequence, first in sequences})
    for segment in segments.at_version(connection, table_id, version):
        manifest.data_files.append(codec.segment_to_ref(segment, codec.EXISTING))
    return manifest


def _lake(connection: sa.Connection, lake_uuid: UUID, lake: sa.Row[tuple[object, ...]]) -> tuple[int, pb.Manifest]:
    counter = connection.execute(sa.select(s.counter)).one()
    manifest = start_manifest(
        lake_uuid, lake.incarnation, counter.version, counter.clock_ns, FULL, codec.KNOWN_FEATURES
    )
    manifest.lake = True
    for row in connection.execute(sa.select(s.databases)).all():
        manifest.databases.append(database_entry(row))
    for row in connection.execute(sa.select(s.tables)).all():
        manifest.table_entries.append(table_entry(row))
    for row in connection.execute(sa.select(s.views)).all():
        manifest.views.append(view_entry(connection, row))
    for row in connection.execute(sa.select(s.requests)).all():
        manifest.requests.append(pb.Request(id=row.id, version=row.version, created_at=row.created_at))
    manifest.state.CopyFrom(
        pb.LakeState(
            created_at=lake.created_at,
            clock_ns=counter.clock_ns,
            response_seq=counter.response_seq,
            reserves={row.name: row.next for row in connection.execute(sa.select(s.reserves))},
            incarnations=[
                pb.Incarnation(
                    number=row.number,
                    continues_from=row.continues_from,
                    first_version=row.first_version,
                    started_at=row.started_at,
                )
                for row in connection.execute(sa.select(s.incarnations).order_by(s.incarnations.c.number))
            ],
        )
    )
    return counter.version, manifest
