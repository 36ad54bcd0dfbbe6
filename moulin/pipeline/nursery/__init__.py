"""The nursery: baby segments of collectors become segments of tables, exactly once.

`nursery` plans a batch from the catalog's offsets and commits it. `mill` is one task of it, run here or on Spark.
`tries` records the batch in which a nursery crashed, so that its cause is set aside. `warm_up` starts Spark in the
background, `figures` has metrics, `stuck` reports streams with a gap, `ticker` lets Structured Streaming trigger it.

May import: `pipeline.runner`, `moulin.ingest.intake`, and the layers below.
Read first: `nursery.py`.

Nouns: a stream has a frontier, the last baby segment in tables; the backlog is stored past it; a batch takes a part
of the backlog; a share of the batch is one task; asides are records that were set aside.
"""
