"""Changes on their way to a version.

change.py has the changes: data, settings, compaction. committer.py prepares them, carries them over to newer
versions and commits them. vectors.py reads, caches and writes deletion vectors. retry.py is the one loop for commits
that lost a race: *rebase* carries the same change over, *retry* runs the operation again from the start. Other
layers that commit by themselves (iceberg, meta, pipeline) use the same loop.

Imports the catalog, formats and storage, and no other room. Read change.py first.
"""
