"""Inline segments: which they are, and how many each table has.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

import sqlalchemy as sa
from alembic import op

from moulin.catalog.sql import schema as s

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table, default in ((s.segments, sa.false()), (s.tables, sa.text("0"))):
        if "inline" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table.name)}:
            kind = table.c["inline"].type
            op.add_column(table.name, sa.Column("inline", kind, nullable=False, server_default=default))
