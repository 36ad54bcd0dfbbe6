"""Bulk writes to keyed tables: upserts, overwrites and merges that do not go through a log.

The nouns, from large to small: a *plan* contains what every task must know; a task writes *runs*, segments in key order
whose keys were located; the runs of a region are merged in a *draft*; all drafts become one *change*.

writer.py is the kernel that writes runs. runs.py has the kernels that find duplicate keys and locate keys again.
drafts.py merges and checks runs until they are committed. commit.py plans and commits while the regions are held.
bulk.py has the same verbs for rows of this process.

Imports keyed/ and everything below it. Read commit.py first.
"""
