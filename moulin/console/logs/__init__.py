"""Logs of a lake: search, counts over time, context, and live tail.

Modules: `levels` (severity levels), `search` (the search language), `question` (range and conditions), `records`
(pages, one record, its context), `counts` (histogram, facets), `tail` (new records).

May import: `console.telemetry` and the layers below. No HTTP here: routes are in `console.api.logs` and `console.loki`.
Read first: `question.py`, then `records.py`.

Nouns: a question has a range and conditions; a record is a row with an id; a page of records has a cursor.
"""
