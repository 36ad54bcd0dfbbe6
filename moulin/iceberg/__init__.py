"""Tables for engines that read and write Iceberg.

Rooms, top first: `rest/` (the REST catalog) > `projection/` (a version of a table written as Iceberg metadata) and
`check/` (any Iceberg table against the specification) > `format/` (the bytes and JSON of Iceberg's own files).

May import: all layers down from `moulin.ingest`; HTTP is imported in `rest/` only.
Read first: docs/formats/iceberg.md, then `projection/projection.py`.

Nouns: a version is the lake's, a snapshot is Iceberg's; a projection is the metadata of one version; an export is a
projection that is a table of its own; an engine is foreign software that reads or writes the table.
"""
