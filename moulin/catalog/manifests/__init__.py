"""Manifests: every version is also written to storage, so that a lost catalog can be rebuilt and replicas can follow.

Read `publish.py` first (from the outbox to storage), then `line.py`: which manifests a storage root must hold. For
reading: `index.py` finds and reads manifests, `replay.py` rebuilds a table, `lake_replay.py` everything else,
`recover.py` a whole catalog. `follow.py` applies new manifests to a replica, `newest.py` detects a catalog that went
back in time. `full.py` writes the state at one version, which limits the replay.

May import the rooms from `expiry` down. Nothing here runs under the counter's lock; the draft of a version is in
`sql/draft.py`. Terms: a *delta* contains the changes of one version; a *full* manifest the state at one version; a
*chain* is a full manifest and the deltas after it; the *line* is all of a lake's.
"""
