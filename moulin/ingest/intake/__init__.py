"""From baby segments to rows of tables: what the nursery's tasks and fresh queries both run.

`backlog` lists what of a stream is stored past its frontier. `intake` reads baby segments, decodes them and routes
their rows; `routing` decides the table of each row. `fresh` says which baby segments a version does not have yet.

May import: `ingest.otlp`, `ingest.appended` and the layers below; not `collector/`.
Read first: `intake.py`.

Nouns: a baby segment has entries; an entry has a kind, a signal or rows; targets are the tables rows may go to; an
aside is an entry that gave no rows.
"""
