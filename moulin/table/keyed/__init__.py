"""Keyed tables: writes and reads by primary key.

The nouns: a *region* is a part of the table that one process writes; its writer appends to a *log*, then puts into a
*memtable*; a full memtable is *flushed* into a segment; the *tail* of a log contains the unflushed rows of a dead or
other owner.

`KeyedTable` is put together from its parts: reader.py (reads) < holder.py (regions held, flushes) < settler.py (logs
that others left) < keyed.py (writes by key, changes that hold regions). tables.py has the one object per table and
process; background.py its threads, which flush_lock.py keeps apart; region.py the writer of one region; claim.py claims
one; memtable.py holds its rows, and columns.py the same as Arrow; pending.py is what scans see of them.
left_logs.py finds logs that were left, replay.py reads them. version.py is what a reader sees, lookup.py finds rows in
segments, key_scan.py scans with what is pending, in key order if asked.

Locks are taken in this order: `_life`, `_holding`, `_flushing`, `_lock`, then those of the region writers.

Imports compact/ and what is below it. Read region.py first, then keyed.py.
"""
