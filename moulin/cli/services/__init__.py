"""Commands that run until they are stopped, and commands for tokens.

`serve` is the server, `ingest` the collector, `pipeline` has nursery, worker and janitor. `up` runs all of them in one
process tree that `supervisor` keeps running. `tokens` manages ingest tokens.

May import: `cli.options`, `cli.output`, `cli.served`, and every layer; not the other rooms of `cli`.
Read first: `up.py`.

Nouns: a service is a process; the supervisor restarts it when it crashes; a token lets senders write.
"""
