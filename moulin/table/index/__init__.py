"""Secondary indexes of a table: creates, drops, extends them, and maintains them in compactions.

An *index* belongs to a column. It has *files*, each of which covers some segments; rows of segments that no file
covers are found by reading them, so an outdated index is never wrong.

index.py plans and commits. build.py has the kernels: one builds a file from the rows of segments, the other maps
entries of a compaction's inputs to its outputs through the journal.

Imports context, find/ and what is below them. Read index.py first.
"""
