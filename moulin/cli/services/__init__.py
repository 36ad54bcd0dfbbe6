"""Commands that run until they are told to end, and those that say who may use them.

`serve` is the server, `ingest` the collector, `pipeline` has nursery, worker and janitor. `up` runs all of them as one
tree of processes that `supervisor` keeps alive. `tokens` manages who may send telemetry.

May import: `cli.options`, `cli.output`, `cli.served`, and every layer; not the other rooms of `cli`.
Read first: `up.py`.

Nouns: a service is a process; the supervisor starts it again when it dies; a token lets senders write.
"""
