"""The commit: one or more operations on tables, applied as one version of the lake under the counter's lock.

Read `commit.py` first (`apply`). A caller passes a `TableCommit` and gets a `CommitResult`, or `Stale` if a
precondition of the operation no longer holds (`table_commit.py`). Each operation then works on a `TableChange`
(`table_change.py`): `data.py` for rows, `restore.py`, `indexes.py`, `regions.py`, `settings.py`. Before that,
`arrivals.py` checks paths, numbers and texts of every commit, and `delivery.py` compares the commit of another process
with storage. `requests.py` and `backfills.py` store request ids. `clones.py` and `branches.py` create tables with a
base; `publishing.py` and `publish_objects.py` publish those of a branch to main.

May import the rooms from `tasks` down. SQL only while the lock is held: no storage, no waiting.
Terms: operation (what a writer wants) -> table commit (with the version it read) -> table change (being applied) ->
version.
"""
