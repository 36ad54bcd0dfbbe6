"""Merge tasks: which segments are to be rewritten, who works on that, and for how long.

Read `merge_tasks.py` first: tasks are made of plans, and a segment is an input of one task at most. `claims.py` hands
tasks to workers for the time of a lease, counts failures, and finishes a task in the transaction of its commit.
`task_list.py` lists and counts; it changes nothing.

May import `segments` and what is below. Tasks take no version and are not recovered: they are planned again. Compaction
itself is in `table/compact`.
Ladder: plan -> task -> attempt (a claim under a lease) -> finished, or back to waiting, or in quarantine after too many
failures.
"""
