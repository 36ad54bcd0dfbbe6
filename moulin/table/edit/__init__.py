"""Edits: the rows that a statement inserts, updates or deletes, written and committed as one version.

The nouns, from large to small: a *statement* has *clauses* (insert these columns, update those, delete); an *edit* is
one row with the number of its clause and, unless it is inserted, the segment and position of the row that it replaces
or deletes. An update gives only the columns that change: the others, and the row id, are read from the segment.

edits.py has the values, writer.py the kernel that writes edits in this process and in Spark's tasks, commit.py plans
and commits. Edits that are computed without a query come in slices (slices.py), those of `table.update` from update.py.
A merge with `on` is described by a MergeBuilder (merge_builder.py), bound to its columns (merge_statement.py,
merge_source.py) and computed by merge.py, which pairs rows by matching.py and prunes segments by bounds.py.

Imports bulk/ and everything below it. Read edits.py first.
"""
