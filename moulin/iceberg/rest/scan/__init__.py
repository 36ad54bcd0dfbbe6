"""Scan planning for engines: which files of a table a scan has to read.

`plan` is the endpoint: it asks the catalog with a filter and answers with file tasks, without reading manifests.
`filter` makes a predicate of the filter of a request; it may keep non-matching segments, because engines filter again.
`residual` computes what they have to test in a file, `files` formats files, and `pending` keeps slow plans.

May import: `rest.tables` and what lies below it, `iceberg.projection`, `iceberg.format`.
Read first: `plan.py`.

Nouns: a plan is the answer to a scan; a task of it names a data file and its delete files.
"""
