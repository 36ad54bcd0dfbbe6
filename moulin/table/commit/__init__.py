"""Preparing and committing changes.

change.py has the changes: data, settings, compaction. committer.py prepares them, rebases them onto newer versions and
commits them. vectors.py reads, caches and writes deletion vectors. retry.py is the loop for commits with conflicts:
*rebase* applies the same change to the new version, *retry* runs the operation again from the start. Other layers that
commit by themselves (iceberg, meta, pipeline) use the same loop.

Imports the catalog, formats and storage, and no other room. Read change.py first.
"""
