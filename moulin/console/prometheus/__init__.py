"""Prometheus' HTTP API over the lake's metrics, for Grafana. See docs/operations/grafana.md.

Rooms: `app` has the routes, `forms` takes posted queries, `promql` reads queries, `samples` makes Prometheus' series of
points, `windows` computes over ranges of samples, `vectors` over the values of one moment, `engine` evaluates a query
at every step.

May import: `moulin.console.api.requests`, `moulin.console.metrics` and what is below them; times and steps are read as
`moulin.console.loki.parameters` does. Read first: `app.py`, then `engine.py`.

Nouns: a vector has a series for each set of labels, and for each step a value or none; a scalar has a value for each
step.
"""
