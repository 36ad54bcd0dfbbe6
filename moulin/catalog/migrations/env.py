"""Alembic's entry point. The connection is passed in by `moulin.catalog.engine`, already inside a transaction."""

from alembic import context

from moulin.catalog.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
