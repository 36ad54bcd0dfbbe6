"""Merge tasks with leases, staged segments, and what clean-up tells of a tombstoned segment.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

import sqlalchemy as sa
from alembic import op

from moulin.catalog.sql import schema as s

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    inspector = sa.inspect(connection)
    for table in (s.merge_tasks, s.merge_task_inputs, s.staged_segments, s.leases):
        table.create(connection, checkfirst=True)
    if inspector.has_table("reservations"):  # they ran out within the hour; tasks hold inputs now
        op.drop_table("reservations")
    for table, names in (
        (s.segment_spans, ("time_max",)),
        (s.journals, ("output",)),
        (s.trash, ("table_id", "segment", "tombstoned_at", "tombstone_version", "output")),
    ):
        found = {column["name"] for column in inspector.get_columns(table.name)}
        for name in names:
            if name not in found:
                column = table.c[name]
                new = sa.Column(name, column.type, nullable=column.nullable, server_default=column.server_default)
                op.add_column(table.name, new)
        indexes = {index["name"] for index in inspector.get_indexes(table.name)}
        if table is s.segment_spans and "time_max" not in found:
            ends = sa.select(sa.func.coalesce(s.segments.c.time_max, 0)).where(s.segments.c.number == table.c.segment)
            connection.execute(table.update().values(time_max=ends.scalar_subquery()))
        for index in table.indexes:
            if index.name not in indexes:
                index.create(connection)
                if connection.dialect.name == "sqlite" and index.name in s.SPAN_STATISTICS:
                    connection.exec_driver_sql(
                        "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('segment_spans', ?, ?)",
                        (index.name, s.SPAN_STATISTICS[index.name]),
                    )
                    connection.exec_driver_sql("ANALYZE sqlite_schema")
