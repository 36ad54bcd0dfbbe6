"""The nursery: baby segments of collectors become segments of tables, exactly once.

`nursery` plans a batch from the catalog's offsets and commits it. `mill` is one task of it, run here or on Spark.
`tries` notes which batch a nursery died in, so that what kills it is set aside. `warm_up` starts Spark beside it,
`figures` counts, `stuck` says which
streams wait at a gap, `ticker` lets Structured Streaming call it.

May import: `pipeline.runner`, `moulin.ingest.intake`, and the layers below.
Read first: `nursery.py`.

Nouns: a stream has a frontier, the last baby segment in tables; the backlog is stored past it; a batch takes a part
of the backlog; a share of the batch is one task; asides are records that gave no rows.
"""
