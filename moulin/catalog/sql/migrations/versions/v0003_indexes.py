"""Secondary indexes.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

from alembic import op

from moulin.catalog.sql.schema import index_coverage, index_files, indexes

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    for table in (indexes, index_files, index_coverage):
        table.create(connection, checkfirst=True)
