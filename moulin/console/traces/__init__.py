"""Traces as pictures need them: pure functions from Arrow tables of spans, without I/O.

Rooms: `tree` puts the spans of one trace into the order of a waterfall, `critical_path` finds what its length is made
of, `summary` makes a row of each trace, `service_map` counts the calls between services; they share `spans`.

May import: `moulin.model`. Read first: `spans.py`.

Nouns: a trace has spans; a span has a parent, or is a root; a row is the index of a span in the table asked about.
"""
