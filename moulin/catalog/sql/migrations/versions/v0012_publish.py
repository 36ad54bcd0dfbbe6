"""Publishing: a branch notes what main's databases and views were when it began, and the version that it became.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("branches")}
    if "published_version" not in known:
        op.add_column("branches", sa.Column("published_version", sa.BigInteger))
        op.add_column("branches", sa.Column("began", sa.JSON(none_as_null=True)))
