"""Traces: found in the tables of telemetry, and as pictures need them.

Rooms: `search` reads them; the others are pure functions of Arrow tables. `tree` puts the spans of one trace into the
order of a waterfall, `critical_path` finds what its length is made of, `summary` makes a row of each trace,
`service_map` counts the calls between services, `attributes` tells what a span carries; they share `spans`.

May import: `moulin.console.telemetry` and what is below it. Read first: `spans.py`.

Nouns: a trace has spans; a span has a parent, or is a root; a row is the index of a span in the table asked about.
"""
