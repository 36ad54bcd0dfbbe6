"""Statements that change a lake, define things in it or ask about them: what `lake.sql` runs besides queries.

`statements` maps the classes of Spark's plans, and those of our own grammar, to the functions that run them. Each takes
a `session.Session` and a plan, does its work once, and returns an `answer.Answer`: a few rows of plain values.

`changes` and `inserts` change rows: `targets` has the rows of a table with their places, `clauses` and `merging` make
edits of them; `in_process` does so without Spark. `tables`, `alter` and `databases` define things: `definitions` and
`columns` turn clauses into arguments of the Python calls, `create_text` turns a table into a statement. `show` and
`describe` ask, `calls` does upkeep. `grammar` reads the statements that Spark's parser does not, from `tokens`.
`spelling` finds what names mean.

May import: `pipeline.sql`, `pipeline.write`, `pipeline.read` and the layers below.
Read first: `statements.py`.
"""
