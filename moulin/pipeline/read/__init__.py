"""Tables as Spark DataFrames.

`reader` builds native Parquet scans and filters deleted rows in generated code; `columns` plans what Spark declares
and selects, and `files` hands Spark the list of files. `staging` copies files that Spark cannot read in place.
`segment_scan` reads segments in Python tasks, for remote stores and for `format("moulin")`. `fresh` adds stored records
that are not yet in segments. `feed` reads changes in tasks, `metadata` has the metadata tables. `batches` has the types
that Spark expects from Python.

May import: `pipeline.session` and the layers below; not `write/`, `sql/` or `source/`.
Read first: `reader.py`.

Nouns: a scan reads segments with one plan of columns; a frame is the union of scans; a named frame has a view.
"""
