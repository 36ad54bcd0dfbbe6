"""Alembic's entry point. The connection is passed in by `moulin.catalog.sql.pool`, already inside a transaction."""

from alembic import context

from moulin.catalog.sql.schema import complete_metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=complete_metadata(connection.dialect.name))
context.run_migrations()
