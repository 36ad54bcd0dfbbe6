"""Ingest: tokens, streams and their offsets, members, and request ids that stand for several versions in a row.

The first revision makes the tables as they are today, so in a new catalog there is nothing left to do.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from moulin.catalog.sql import schema as s

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    for table in (
        s.ingest_tokens,
        s.token_secrets,
        s.streams,
        s.stream_tables,
        s.stream_checkpoints,
        s.set_asides,
        s.members,
    ):
        table.create(connection, checkfirst=True)
    added: dict[str, list[sa.Column[Any]]] = {
        "counter": [sa.Column("routing_seq", sa.BigInteger, nullable=False, server_default="0")],
        "requests": [
            sa.Column("versions", sa.Integer, nullable=False, server_default="1"),
            sa.Column("digest", sa.LargeBinary),
        ],
    }
    for name, columns in added.items():
        found = {column["name"] for column in sa.inspect(connection).get_columns(name)}
        for column in columns:
            if column.name not in found:
                op.add_column(name, column)
