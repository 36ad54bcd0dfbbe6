"""An index by which old request ids are found.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

import sqlalchemy as sa
from alembic import op

from moulin.catalog.sql import schema as s

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    found = {index["name"] for index in sa.inspect(connection).get_indexes(s.requests.name)}
    for index in s.requests.indexes:
        if index.name not in found:
            index.create(connection)
