"""Projections: any kept version of a table as Iceberg metadata, written when somebody asks for it.

`projection` finds or makes one and records it in the catalog. `rewrite` takes over the manifests of the projection
before. `export` writes a table of its own elsewhere. `engines` says which engines can read the result.

May import: `iceberg.format` and the layers below.
Read first: `projection.py`.

Nouns: projections of one table and format form a line; each has a base, the projection before it; the delta between
the two is what is written.
"""
