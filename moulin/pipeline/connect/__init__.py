"""Spark Connect's messages, planned and run for clients that are trusted with the lake's tables alone.

`allowed` lists the messages and fields that are taken, and refuses all others; `client_rows` does so for rows.
`planner` has Spark plan relations without running anything, and `relations` plans those that Spark would run at once.
`session` is what one client has: its settings, its views, frames of its relations, and its changes. `session_sql` runs
the SQL that is about the session: SET and temporary views. `catalog` answers what a client asks of the catalog, and
`settings` has the settings that a client may see and set.

May import: everything in `pipeline` and the layers below. The network is in `moulin.sql_server`.
Read first: `session.py`.

Nouns: a relation is a message that describes rows; a plan is what Spark makes of it; a frame is a plan that was
checked.
"""
