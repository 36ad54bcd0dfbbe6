"""Jaeger's query API over the lake's traces, for Grafana and others that read Jaeger. See docs/operations/grafana.md.

Rooms: `app` has the routes and answers in Jaeger's envelope, `question` reads their parameters, `documents` makes
Jaeger's JSON of spans.

May import: `moulin.console.api.requests`, `moulin.console.traces` and what is below them. Read first: `app.py`.
"""
