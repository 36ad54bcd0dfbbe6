"""Alembic's entry point. The connection is passed in by `moulin.catalog.sql.pool`, already inside a transaction."""

from alembic import context

from moulin.catalog.sql.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
