"""Checks of Iceberg tables against the specification, ours or others'.

`checker` walks from metadata to data files and reports findings. `metadata` has the rules of metadata files and field
ids, `files` those of data and delete files. `metadata_files` reads files by location. `projections` runs the check
over the newest projection of each table.

May import: `iceberg.format` and the layers below; not `projection/` or `rest/`.
Read first: `checker.py`.

Nouns: a finding has the violated rule, the address, and what was found there.
"""
