"""Rows into segments, and conditions into positions. Nothing here commits.

writes.py prepares changes: appends, deletes by condition, overwrites. append.py writes the rows of an append, here or
in Spark's tasks; upsert.py those of an upsert, with the positions they replace. match.py is the kernel of deletes.

Below these: segment_writer.py writes one segment per partition, pieces.py gathers batches up to a size, layout.py is
the schema, partitioning and order to write with, clustering.py the order of rows by sharding fields.

Imports read/ (to plan deletes), context and what is below them. Read writes.py first.
"""
