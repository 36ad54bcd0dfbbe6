"""Alembic's folder: how a catalog of an older revision becomes one of today. A new catalog does not come here.

`env.py` is Alembic's entry point; `versions/` has one module per revision. `Pool.migrate` calls them under a lock when
it finds an older revision, and refuses a newer one. Importing Alembic is slow, so nothing else imports this folder:
a new catalog is made by `sql/creation.py`, and a test compares both ways.

May import `sql/schema` and `sql/creation`. To change the schema: change the table in `schema/`, add a revision here,
raise `HEAD_REVISION` in `pool.py`. A revision that was released is never edited.
"""
