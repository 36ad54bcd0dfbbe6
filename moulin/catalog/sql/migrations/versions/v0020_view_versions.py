"""Views keep their versions.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if "history_json" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("views")}:
        op.add_column("views", sa.Column("history_json", sa.String))
