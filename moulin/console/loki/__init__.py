"""Loki's HTTP API over the lake's logs, for Grafana and logcli. See docs/operations/grafana.md.

Rooms: `app` has the routes, `tail` the web socket of the live tail, `parameters` reads times and steps, `logql` parses
queries, `rows` finds the selected records and their labels, `streams` converts them to Loki's JSON, `ranges` counts
over time.

May import: `moulin.console.api.requests`, `moulin.console.api.logs`, `moulin.console.logs` and what is below them. Read
first: `app.py`.

Nouns: a stream has a service and a level; everything else that a record carries is metadata.
"""
