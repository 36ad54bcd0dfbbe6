"""Secondary indexes of a table: made, dropped, brought up to date and carried through compactions.

An *index* belongs to a column. It has *files*, each of which covers some segments; rows of segments that no file
covers are found by reading them, so an index may be behind and is never wrong.

index.py plans and commits. build.py has the kernels: one makes a file from the rows of segments, the other carries
entries of a compaction's inputs over to its outputs through the journal.

Imports context, find/ and what is below them. Read index.py first.
"""
