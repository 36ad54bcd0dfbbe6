"""The SQL server: Spark Connect for clients with a token and a role, over the tables of one lake.

Rooms, top first: `server` (binds, starts, stops) > `service` (the calls) > `analysis`, `sessions` > `operations`
(what runs, and the answers that clients fetch) > `plans`, `results`, `errors`. Messages are checked, planned and run in
`moulin.pipeline.connect`; who calls and what they may is `moulin.meta.auth`, and who runs next `moulin.network.slots`.

May import: everything but `moulin.cli`.
Read first: `service.py`.

Nouns: a session is one client's, of one token; an operation is one statement of it that runs; an answer is one message
of an operation's result.
"""
