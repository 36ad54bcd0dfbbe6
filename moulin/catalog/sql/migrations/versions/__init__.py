"""The revisions of the SQL schema, in the order of their numbers. Alembic finds them by their files.

Each module names its `revision` and `down_revision`, and `upgrade` makes the step between the two. There is no way
down: a lake that was upgraded stays so. Start with the highest number to see how one is written.

May import `sql/schema` and `sql/creation`. Tables that a revision adds are taken from the schema; columns and indexes
that it adds to older tables are written out. A released revision is never edited; a mistake in one is mended by the
next.
"""
