"""Tables for engines that read and write Iceberg.

Rooms, top first: `rest/` (the REST catalog) > `projection/` (a version of a table written as Iceberg metadata) and
`check/` (any Iceberg table against the specification) > `format/` (the bytes and JSON of Iceberg's own files).

May import: all layers down from `moulin.ingest`; HTTP is imported in `rest/` only.
Read first: docs/formats/iceberg.md, then `projection/projection.py`.

Nouns: a version belongs to the lake, a snapshot to Iceberg; a projection is the metadata of one version; an export is a
projection as a separate table; an engine is other software that reads or writes the table.
"""
