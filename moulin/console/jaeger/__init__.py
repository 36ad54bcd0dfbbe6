"""Jaeger's query API over the lake's traces, for Grafana and others that read Jaeger. See docs/operations/grafana.md.

Rooms: `app` has the routes with Jaeger's envelope, `question` parses their parameters, `documents` converts spans to
Jaeger's JSON.

May import: `moulin.console.api.requests`, `moulin.console.traces` and what is below them. Read first: `app.py`.
"""
