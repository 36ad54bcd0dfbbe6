"""The console: a lake in a browser, and the HTTP API under it, which anybody may use.

Rooms: `app` puts both on a server, `assets` serves the files of `static/`, `api/` answers under `/api/v1`. `jaeger/`,
`loki/` and `prometheus/` answer as these do. `logs/`, `traces/` and `metrics/` find what is shown, in what `telemetry`
reads, and `sql/` runs statements in processes of their own. In `api/`, each module has the routes of one subject beside
the shapes of their answers; they share `requests` and `shapes`.

May import: all layers down from `moulin.ingest`. Who calls, tokens and what engines read come from the entry point.
Read first: `app.py`, then `api/tables.py`.

Nouns: a screen asks routes; a route takes a role; a page of a list ends with a cursor.
"""
