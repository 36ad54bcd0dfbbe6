"""The files of Iceberg, as the specification spells them: metadata, manifest lists, manifests, delete files.

`avro` has the schemas of manifests and their bytes, `data_entries` the fast path for entries of data files.
`manifests` makes manifests from facts of segments, `deletes` is how deleted rows appear, `metadata` is the JSON of a
table. `locations` spells addresses, `json` names the type of documents. `pyiceberg_values` turns
pyiceberg's schemas, specs and orders into ours, and back.

May import: `moulin.catalog` and the layers below, nothing else of `iceberg`.
Read first: `manifests.py`.

Nouns: metadata lists snapshots; a snapshot has a manifest list; a manifest has entries; an entry is a file.
"""
