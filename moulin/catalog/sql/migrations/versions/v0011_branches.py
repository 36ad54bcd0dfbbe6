"""Branches: databases may belong to one, and a branch lists the tables of main that it began with.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

import sqlalchemy as sa
from alembic import op

from moulin.catalog.sql import schema as s

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    if "branch_id" not in {column["name"] for column in sa.inspect(connection).get_columns("databases")}:
        op.add_column("databases", sa.Column("branch_id", s.Id))
        op.add_column("databases", sa.Column("origin_id", s.Id))
        op.create_index("ix_databases_branch_id", "databases", ["branch_id"])
    s.branches.create(connection, checkfirst=True)
    s.branch_tables.create(connection, checkfirst=True)
