"""`moulin demo`: a tour on generated data.

`demo` loads, queries, changes and compacts a table, and recovers a lost catalog. `telemetry` sends OTLP through a real
collector and queries it at once. `fleet` makes up the services that send it, the same for the same seed. `stay` serves
the lake to a browser at the end.

May import: `cli.output`, `cli.served` and every layer; not the other rooms of `cli`.
Read first: `demo.py`, from top to bottom: it is a tour of the API too.
"""
