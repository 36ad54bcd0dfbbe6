"""Keyed tables: regions, and what a segment says of its region and key index.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

import sqlalchemy as sa
from alembic import op

from moulin.catalog.sql.schema import regions

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    found = {column["name"] for column in sa.inspect(connection).get_columns("segments")}
    for name in ("region", "index_size"):
        if name not in found:
            op.add_column("segments", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    regions.create(connection, checkfirst=True)
