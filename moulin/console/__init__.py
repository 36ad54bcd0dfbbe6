"""The console: the web interface of a lake, and its HTTP API, which other programs may use too.

Rooms: `app` puts both on a server, `assets` serves the files of `static/`, `api/` serves `/api/v1`. `jaeger/`, `loki/`
and `prometheus/` implement those APIs. `logs/`, `traces/` and `metrics/` search the rows that `telemetry` reads, and
`sql/` runs statements in child processes. In `api/`, each module has the routes of one subject and the types of their
responses; they share `requests` and `shapes`.

May import: all layers down from `moulin.ingest`. Callers, tokens and engine checks are passed in by the entry point.
Read first: `app.py`, then `api/tables.py`.

Nouns: a screen calls routes; a route needs a role; a page of a list ends with a cursor.
"""
