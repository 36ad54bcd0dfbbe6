"""Traces: searches them in telemetry tables, and prepares them for display.

Rooms: `search` reads them; the others are pure functions of Arrow tables. `tree` orders the spans of one trace as a
waterfall, `critical_path` finds its critical path, `summary` makes a row of each trace, `service_map` counts the calls
between services, `attributes` returns the attributes of a span; they share `spans`.

May import: `moulin.console.telemetry` and what is below it. Read first: `spans.py`.

Nouns: a trace has spans; a span has a parent, or is a root; a row is the index of a span in the table asked about.
"""
