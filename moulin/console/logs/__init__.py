"""Logs of a lake: found by a search, counted along time, shown with what happened around them, and followed.

Rooms: `levels` (severities as people name them), `search` (the language of the search box), `question` (what is asked
of which range), `records` (pages, one record, its context), `counts` (histogram, facets), `tail` (what comes).

May import: `console.telemetry` and the layers below. No HTTP here: routes are in `console.api.logs` and `console.loki`.
Read first: `question.py`, then `records.py`.

Nouns: a question has a range and conditions; a record is a row with an id of its own; a page of records has a cursor.
"""
