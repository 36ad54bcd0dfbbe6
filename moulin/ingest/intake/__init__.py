"""Converts baby segments to rows of tables, for the nursery's tasks and for fresh queries.

`backlog` lists the objects of a stream past its frontier. `intake` reads baby segments, decodes them and routes
their rows; `routing` decides the table of each row. `fresh` lists the baby segments that a version does not include
yet.

May import: `ingest.otlp`, `ingest.appended` and the layers below; not `collector/`.
Read first: `intake.py`.

Nouns: a baby segment has entries; an entry has a kind, a signal or rows; targets are the tables rows may go to; an
aside is an entry that gave no rows.
"""
