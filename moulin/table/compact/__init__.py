"""Compaction: segments are rewritten into fewer, larger, sorted ones.

The nouns, from large to small: a *group* is a set of segments worth rewriting together; a *task* is a group stored in
the catalog, and tasks never share a segment; an *attempt* is one claim of a task by a worker, under a lease; a *slice*
is the part of an attempt that one core runs; it writes its own outputs and journal.

picker.py chooses groups and cuts an attempt into slices. kernel.py runs a slice; gather.py orders its rows in pieces
when they are too many. job.py runs all slices of a group and commits the result. compaction.py and worker.py run tasks
in this process, planner.py creates them for workers, and completion.py commits the output of a worker that has only
storage.

Imports index/, write/ and everything below them. Read job.py first.
"""
