"""Manifests: every version also lies in storage, so that a lost catalog can be rebuilt and others can follow.

Read `publish.py` first (from the outbox to storage), then `line.py`: which manifests a storage root must hold. The
way back: `index.py` finds and reads them, `replay.py` makes a table of them, `lake_replay.py` everything else,
`recover.py` a whole catalog. `follow.py` applies those that came since to a replica, `newest.py` refuses a catalog that
went back in time. `full.py` writes the state at one version, which bounds the replay.

May import the rooms from `expiry` down. Nothing here runs under the counter's lock but the draft of a version, which is
in `sql/draft.py`. Ladder: a *delta* holds what one version changed; a *full* manifest the state at one version; a
*chain* is a full manifest and the deltas after it; the *line* is all of a lake's.
"""
