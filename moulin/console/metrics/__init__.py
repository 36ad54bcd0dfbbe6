"""Metrics of a lake: names, and time series.

Rooms: `names` (what is measured), `points` (rows as series), `buckets` (histograms as counts below bounds), `curves`
(what counters gained in each step), `chart` (lines of one metric), `exemplars` (values that name a trace).

May import: `console.telemetry` and the layers below. No HTTP here: routes are in `console.api.metrics` and
`console.prometheus`. Read first: `points.py`, then `chart.py`.

Nouns: a point is a row; a series are the points of one metric with the same attributes from one resource; a line is
what a chart shows of a group of series.
"""
