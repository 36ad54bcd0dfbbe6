"""The tables of a new catalog. Alembic is for catalogs of an older revision: importing it takes longer than this."""

# Decisions: docs/decisions/0162

from __future__ import annotations

from functools import lru_cache

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from moulin.catalog.sql.schema import SPAN_STATISTICS, complete_metadata

# As Alembic makes it.
_REVISIONS = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def create_tables(connection: sa.Connection) -> None:
    """All tables and indexes as they are today. REQUIRES: an empty database, and a transaction."""
    for statement in _statements(connection.dialect.name):
        connection.exec_driver_sql(statement)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("ANALYZE")
        for index, statistics in SPAN_STATISTICS.items():
            connection.exec_driver_sql(
                "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('segment_spans', ?, ?)", (index, statistics)
            )
        connection.exec_driver_sql("ANALYZE sqlite_schema")


def stamp(connection: sa.Connection, revision: str) -> None:
    """Note that the tables are those of a revision, where Alembic looks for it."""
    connection.execute(CreateTable(_REVISIONS, if_not_exists=True))
    connection.execute(_REVISIONS.insert().values(version_num=revision))


@lru_cache
def _statements(dialect: str) -> tuple[str, ...]:
    """Compiled once: that takes longer than running them."""
    kind = sa.URL.create(dialect if dialect == "sqlite" else f"{dialect}+psycopg").get_dialect()()
    made: list[str] = []
    for table in complete_metadata(dialect).sorted_tables:
        made.append(str(CreateTable(table).compile(dialect=kind)))
        made += (
            str(CreateIndex(index).compile(dialect=kind))
            for index in sorted(table.indexes, key=lambda index: str(index.name))
        )
    return tuple(made)
