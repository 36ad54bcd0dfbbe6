"""When indexes were made.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    if "created_at" in {column["name"] for column in sa.inspect(connection).get_columns("indexes")}:
        return
    op.add_column("indexes", sa.Column("created_at", sa.BigInteger))
    made = "select timestamp_ns from versions where versions.version = indexes.created_version"
    connection.execute(sa.text(f"update indexes set created_at = ({made})"))
