"""Base paths: roots beside the lake's own, the files that tables have adopted, and an index over their segments.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

import sqlalchemy as sa
from alembic import op

from moulin.catalog.sql import schema as s

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_INDEX = "segments_in_base_paths"


def upgrade() -> None:
    connection = op.get_bind()
    s.base_paths.create(connection, checkfirst=True)
    s.adopted_files.create(connection, checkfirst=True)
    if _INDEX not in {index["name"] for index in sa.inspect(connection).get_indexes("segments")}:
        where = sa.text(s.IN_BASE_PATH)
        op.create_index(_INDEX, "segments", ["path"], sqlite_where=where, postgresql_where=where)
