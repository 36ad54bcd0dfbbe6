"""Reads and writes Iceberg's files: metadata, manifest lists, manifests, delete files.

`avro` has the schemas of manifests and their bytes, `data_entries` the fast path for entries of data files.
`manifests` builds manifests from facts of segments, `deletes` writes delete files, `metadata` writes the JSON of a
table. `locations` formats addresses, `json` has the type of documents. `pyiceberg_values` turns pyiceberg's schemas,
specs and orders into ours, and back.

May import: `moulin.catalog` and the layers below, nothing else of `iceberg`.
Read first: `manifests.py`.

Nouns: metadata lists snapshots; a snapshot has a manifest list; a manifest has entries; an entry is a file.
"""
