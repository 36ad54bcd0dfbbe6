"""Views with the text of a query: their texts, columns, properties and version.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

import sqlalchemy as sa
from alembic import op

from moulin.catalog.sql import schema as s

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    found = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(s.views.name)}
    for name in ("representations", "schema_json", "properties", "query_version"):
        if name not in found:
            op.add_column(s.views.name, sa.Column(name, s.views.c[name].type))
