"""Projections for Iceberg engines.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

from alembic import op

from moulin.catalog.sql.schema import projection_files, projections

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    for table in (projections, projection_files):
        table.create(connection, checkfirst=True)
