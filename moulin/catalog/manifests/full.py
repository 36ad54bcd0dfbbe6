"""Full manifests: the whole state of a table, or of the lake, at one version. They limit the replay."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.commit import indexes, regions
from moulin.catalog.manifests.scrub import unfinished
from moulin.catalog.objects import base_paths, tables
from moulin.catalog.objects.births import add_births, own_births
from moulin.catalog.objects.history import own_sequences
from moulin.catalog.segments import bases
from moulin.catalog.segments import live as segments
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import (
    add_base_paths,
    add_branches,
    add_view,
    database_entry,
    start_manifest,
    stream_entry,
    table_entry,
    token_entry,
)
from moulin.catalog.sql.pool import Pool
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.formats.merutable_schema import merutable_properties
from moulin.storage import paths


def build(pool: Pool, lake_uuid: UUID, table_id: UUID | None) -> tuple[int, str, bytes]:
    """Version, path and bytes of the current full manifest of a table (None: the lake), from one snapshot."""
    with pool.read() as connection:
        if table_id is None:
            manifest = lake_manifest(connection, lake_uuid)
            path = paths.lake_manifest(manifest.version, "full")
        else:
            manifest = _table(connection, lake_uuid, table_id)
            path = paths.table_manifest(table_id, manifest.version, "full")
    return manifest.version, path, codec.encode(manifest, full=True)


def mark_written(pool: Pool, table_id: UUID | None, version: int) -> None:
    """Restart the count of deltas, from `version` on."""
    c, v = s.table_commits, s.versions
    with pool.unordered(durable=False) as connection:
        if table_id is None:  # an upper bound: not every version has a lake manifest
            newer = connection.execute(sa.select(sa.func.count()).where(v.c.version > version)).scalar_one()
            connection.execute(s.counter.update().where(s.counter.c.deltas > newer).values(deltas=newer))
        else:
            versions = sa.select(sa.func.count(c.c.version.distinct()))
            newer = connection.execute(versions.where(c.c.table_id == table_id, c.c.version > version)).scalar_one()
            connection.execute(s.tables.update().where(s.tables.c.id == table_id).values(deltas=newer))


def _table(connection: sa.Connection, lake_uuid: UUID, table_id: UUID) -> pb.Manifest:
    row = connection.execute(sa.select(s.tables).where(s.tables.c.id == table_id)).one()
    incarnation = connection.execute(sa.select(s.lake.c.incarnation)).scalar_one()
    version = row.head_version
    c = s.table_commits
    last = connection.execute(
        sa.select(c).where(c.c.table_id == table_id, c.c.version == version).order_by(c.c.ordinal)
    ).all()
    kind = connection.execute(sa.select(s.versions.c.kind).where(s.versions.c.version == version)).scalar_one()
    manifest = start_manifest(lake_uuid, incarnation, version, last[-1].timestamp_ns, kind)
    manifest.table_uuid = str(table_id)
    manifest.tables.append(table_id.bytes)
    manifest.snapshot_id = last[-1].snapshot_id
    if (previous := _previous(connection, table_id, version)) is not None:
        manifest.previous_snapshot_id = previous
    tables.fill_state(manifest, row)
    for name, source in tables.SETTINGS.items():
        settings = connection.execute(sa.select(source.c[1], source.c.json).where(source.c.table_id == table_id))
        getattr(manifest.table, name).extend(pb.Setting(id=setting[0], json=setting[1]) for setting in settings)
    schema = tables.parse_schema(next(one.json for one in manifest.table.schemas if one.id == row.schema_id))
    manifest.properties.update(merutable_properties(row.name, schema, row.last_column_id))
    manifest.commits.extend(_commit(commit) for commit in last)
    # A reader that starts here needs the properties even if an older version changed them.
    manifest.commits[-1].properties_json = json.dumps(dict(row.properties), sort_keys=True)
    manifest.sequence_versions.update(own_sequences(connection, table_id))
    add_births(manifest, own_births(connection, table_id))
    manifest.data_files.extend(segments.refs_at_version(connection, table_id, version))
    if any(ref.adopted or ref.dv_adopted for ref in manifest.data_files):
        codec.require_feature(manifest, codec.FEATURE_BRANCHES)
    if any(ref.columns_id for ref in manifest.data_files):
        codec.require_feature(manifest, codec.FEATURE_COLUMN_FILES)
    manifest.masks.extend(bases.masks(connection, table_id))
    if row.inline:
        codec.require_feature(manifest, codec.FEATURE_INLINE_SEGMENTS)
    manifest.adopted_files.extend(base_paths.remembered(connection, table_id))
    codec.require_base_paths(manifest, (ref.path for ref in manifest.data_files))
    manifest.regions.extend(regions.stored(connection, table_id))
    indexes.fill_manifest(connection, table_id, manifest)
    return manifest


def _previous(connection: sa.Connection, table_id: UUID, version: int) -> int | None:
    """The snapshot before a version of a table; None if there is none, or it was deleted."""
    c = s.table_commits
    before = sa.select(c.c.snapshot_id).where(c.c.table_id == table_id, c.c.version < version, c.c.ordinal >= 0)
    found = connection.execute(before.order_by(c.c.version.desc(), c.c.ordinal.desc()).limit(1)).scalar()
    return None if found is None else int(found)


def _commit(row: Any) -> pb.Commit:
    return pb.Commit(
        version=row.version,
        ordinal=row.ordinal,
        timestamp_ns=row.timestamp_ns,
        kind=row.kind,
        schema_id=row.schema_id,
        spec_id=row.spec_id,
        sort_order_id=row.sort_order_id,
        sequence=row.sequence,
        snapshot_id=row.snapshot_id,
        first_row_id=row.first_row_id,
        added_rows=row.added_rows,
        properties_json=None if row.properties is None else json.dumps(row.properties, sort_keys=True),
        summary_json=json.dumps(row.summary, sort_keys=True),
    )


def lake_manifest(connection: sa.Connection, lake_uuid: UUID) -> pb.Manifest:
    """The full content of lake manifests, in the connection's snapshot."""
    lake = connection.execute(sa.select(s.lake)).one()
    counter = connection.execute(sa.select(s.counter)).one()
    last = connection.execute(sa.select(s.versions).where(s.versions.c.version == counter.version)).first()
    manifest = start_manifest(
        lake_uuid,
        lake.incarnation,
        counter.version,
        last.timestamp_ns if last else counter.clock_ns,
        last.kind if last else "",
    )
    manifest.lake = True
    for row in connection.execute(sa.select(s.databases).order_by(s.databases.c.id)).all():
        manifest.databases.append(database_entry(row))
    for row in connection.execute(sa.select(s.tables).order_by(s.tables.c.id)).all():
        manifest.table_entries.append(table_entry(row))
    for row in connection.execute(sa.select(s.views).order_by(s.views.c.id)).all():
        add_view(manifest, connection, row)
    branches = connection.execute(sa.select(s.branches).order_by(s.branches.c.id)).all()
    listed = sa.select(s.branch_tables).order_by(s.branch_tables.c.branch_id, s.branch_tables.c.source_id)
    add_branches(manifest, branches, connection.execute(listed))
    add_base_paths(manifest, connection.execute(sa.select(s.base_paths).order_by(s.base_paths.c.id)))
    for row in connection.execute(sa.select(s.ingest_tokens).order_by(s.ingest_tokens.c.id)).all():
        manifest.ingest_tokens.append(token_entry(connection, row))
    for row in connection.execute(sa.select(s.streams).order_by(s.streams.c.id)).all():
        manifest.streams.append(stream_entry(connection, row))
    for row in connection.execute(sa.select(s.set_asides).order_by(s.set_asides.c.version, s.set_asides.c.ordinal)):
        manifest.set_asides.append(pb.SetAside(**{**row._mapping, "stream_id": row.stream_id.bytes}))
    for row in connection.execute(sa.select(s.requests)).all():
        manifest.requests.append(
            pb.Request(
                id=row.id,
                version=row.version,
                created_at=row.created_at,
                versions=row.versions,
                digest=row.digest or b"",
            )
        )
    if left := unfinished(connection):
        manifest.erasures.extend(left)
        codec.require_feature(manifest, codec.FEATURE_ERASURES)
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
    return manifest
