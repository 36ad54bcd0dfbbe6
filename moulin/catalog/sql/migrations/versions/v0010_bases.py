"""Spans say how a segment joined their table, and a table may have a base whose segments it reads, too.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

import sqlalchemy as sa
from alembic import op

from moulin.catalog.sql import schema as s

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_MOVED = {"first_row_id": "first_row_id", "sequence": "sequence", "joined_version": "added_version"}


def upgrade() -> None:
    connection = op.get_bind()
    spans = {column["name"] for column in sa.inspect(connection).get_columns("segment_spans")}
    for name in _MOVED.keys() - spans:
        op.add_column("segment_spans", sa.Column(name, sa.BigInteger, nullable=False, server_default=sa.text("0")))
    segments = {column["name"] for column in sa.inspect(connection).get_columns("segments")}
    if "first_row_id" in segments:
        values = ", ".join(
            f"{name} = (SELECT g.{source} FROM segments g WHERE g.number = segment_spans.segment)"
            for name, source in _MOVED.items()
        )
        connection.execute(sa.text(f"UPDATE segment_spans SET {values}"))
        for name in ("first_row_id", "sequence"):
            op.drop_column("segments", name)
    if "branch" in spans:
        _drop_branch(connection)
    s.span_masks.create(connection, checkfirst=True)
    if "base_id" not in {column["name"] for column in sa.inspect(connection).get_columns("tables")}:
        op.add_column("tables", sa.Column("base_id", s.Id))
        op.add_column("tables", sa.Column("base_version", sa.BigInteger))
        op.create_index("ix_tables_base_id", "tables", ["base_id"])


def _drop_branch(connection: sa.Connection) -> None:
    """The indexes that began with the table and the branch are made again without it."""
    made = {index["name"] for index in sa.inspect(connection).get_indexes("segment_spans")}
    renewed = [
        index for index in s.segment_spans.indexes if index.name in ("spans_time", "spans_partition", "spans_removed")
    ]
    for index in renewed:
        if index.name in made:
            op.drop_index(str(index.name), "segment_spans")
    op.drop_column("segment_spans", "branch")
    for index in renewed:
        index.create(connection)
    if connection.dialect.name == "sqlite":
        for name, statistics in s.SPAN_STATISTICS.items():
            connection.exec_driver_sql("DELETE FROM sqlite_stat1 WHERE idx = ?", (name,))
            connection.exec_driver_sql(
                "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('segment_spans', ?, ?)", (name, statistics)
            )
        connection.exec_driver_sql("ANALYZE sqlite_schema")
