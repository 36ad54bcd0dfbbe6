"""The SQL server: Spark Connect for clients with a token and a role, over the tables of one lake.

Rooms, top first: `server` (binds, starts, stops) > `service` (the calls) > `analysis`, `sessions` > `operations`
(running statements, and the results that clients fetch) > `plans`, `results`, `errors`. Messages are checked, planned
and run in `moulin.pipeline.connect`; authorization is in `moulin.meta.auth`, and scheduling in `moulin.network.slots`.

May import: everything but `moulin.cli`.
Read first: `service.py`.

Nouns: a session is one client's, of one token; an operation is one statement of it that runs; an answer is one message
of an operation's result.
"""
