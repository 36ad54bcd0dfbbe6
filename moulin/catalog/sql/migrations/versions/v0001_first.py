"""The first schema. Later ones are written as changes, never by editing the tables of an older revision."""

from alembic import op

from moulin.catalog.sql.creation import create_tables

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_tables(op.get_bind())
