"""Column files: spans name sets of them.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

import sqlalchemy as sa
from alembic import op

from moulin.catalog.sql import schema as s

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    if "columns_id" not in {column["name"] for column in sa.inspect(connection).get_columns("segment_spans")}:
        zero = sa.text("0")
        op.add_column("segment_spans", sa.Column("columns_id", sa.BigInteger, nullable=False, server_default=zero))
    if "kind" not in {column["name"] for column in sa.inspect(connection).get_columns("merge_tasks")}:
        compact = sa.text("'compact'")
        op.add_column("merge_tasks", sa.Column("kind", sa.String, nullable=False, server_default=compact))
    s.column_files.create(connection, checkfirst=True)
    s.column_sets.create(connection, checkfirst=True)
