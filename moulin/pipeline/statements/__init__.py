"""Statements that change a lake, define things in it or ask about them: what `lake.sql` runs besides queries.

`statements` maps the classes of Spark's plans, and those of our own grammar, to the functions that run them. Each takes
a `session.Session` and a plan, does its work once, and returns an `answer.Answer`: a few rows of plain values.

May import: `pipeline.sql`, `pipeline.write`, `pipeline.read` and the layers below.
Read first: `statements.py`.
"""
