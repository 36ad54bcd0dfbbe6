"""The first schema. Later ones are written as changes, never by editing the tables of an older revision."""

from alembic import op

from moulin.catalog.schema import SPAN_STATISTICS, metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    metadata.create_all(connection)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("ANALYZE")
        for index, statistics in SPAN_STATISTICS.items():
            connection.exec_driver_sql(
                "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('segment_spans', ?, ?)", (index, statistics)
            )
        connection.exec_driver_sql("ANALYZE sqlite_schema")
