"""Projections: Iceberg metadata of any kept version of a table, written on demand.

`projection` finds or writes one and records it in the catalog. `rewrite` reuses the manifests of the previous
projection. `export` writes a separate table. `engines` says which engines can read the result.

May import: `iceberg.format` and the layers below.
Read first: `projection.py`.

Nouns: projections of one table and format form a line; each has a base, the projection before it; the delta between
the two is what is written.
"""
