"""Erasures: rows that were erased from every version, and what is left to do about them.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

from alembic import op

from moulin.catalog.sql import schema as s

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    s.erasures.create(op.get_bind(), checkfirst=True)
