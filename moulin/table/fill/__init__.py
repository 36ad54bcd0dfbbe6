"""Fills: compute columns for existing rows, in separate column files.

Read `fill.py` first: it adds a pending column, fills it segment by segment under tasks, and completes it. `kernel.py`
writes the column file of one segment, in this process or in a Spark task; `compute.py` has the sources of values: an
expression, a function, or joined rows.

Ladder: a fill has groups, a group is a task, a task has segments, and each segment gets a column file.
"""
