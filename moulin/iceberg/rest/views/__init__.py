"""Views over REST: the lake's own, as Iceberg's view specification has them.

Modules, top first: `changes` (create, replace, register), `views` (list, load, drop, rename) and `updates` (what the
updates of a request make of a view), `documents` (a view as Iceberg's metadata, and back).

May import: the rooms below in `rest`, and `rest.commit` for how schemas are read.
Read first: `documents.py`.

Nouns: a view has a history; a history has versions; a version has a text per dialect, and one of them is current.
"""
