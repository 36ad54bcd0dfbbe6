"""Plans and runs Spark Connect messages for clients that may access the lake's tables and nothing else.

`allowed` has the allow lists of messages and fields; `client_rows` does the same for rows.
`planner` lets Spark plan relations without running anything, and `relations` plans those that Spark would run at once.
`session` is the state of one client: its settings, views, frames of its relations, and changes. `session_sql` runs the
SQL that is about the session: SET and temporary views. `catalog` answers catalog requests, and `settings` has the
settings that a client can read and set.

May import: everything in `pipeline` and the layers below. The network is in `moulin.sql_server`.
Read first: `session.py`.

Nouns: a relation is a message that describes rows; a plan is Spark's plan of it; a frame is a checked plan.
"""
