"""Fills: columns that are added with values, in files of their own beside the segments.

Read `fill.py` first: it begins a pending column, fills it segment by segment under tasks, and completes it. `kernel.py`
writes the column file of one segment, in this process or in a Spark task; `compute.py` has what values come from: an
expression, a function, or rows that are joined.

Ladder: a fill has groups, a group is a task, a task has segments, and each segment gets a column file.
"""
