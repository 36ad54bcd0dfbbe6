"""`lake.sql`: checks statements, resolves their tables, and prunes the rows to read.

`sql` rejects unsupported statements and names the call to use instead. `catalyst` is the module that knows the
classes of Spark's parser and plans. `names` finds the lake's tables in a plan and puts their rows there; `named`
counts them, so that none is missed. `pruning` plans a statement over stand-ins first (`optimizer`) and reads the
filters on them as conditions that spare files (`filters`, `expressions`); `join_keys` does so for the keys of a small
source, and `exact` reads expressions that need no Spark at all. `aggregates` finds what totals from the catalog answer,
and `deferred` has frames whose filters count, too. `resolver` finds the tables and views that
names mean, and `tables` makes frames of their rows. `results` reads the rows of a query by and by. `safe` checks
queries of people who are trusted with the tables alone, against lists of classes; `safe_functions` lists what such
queries may call.

May import: `pipeline.read` and the layers below; not `write/` or `source/`.
Read first: `names.py`.

Nouns: a reference is a table as a statement names it; a site is the part of the plan with that name; a stand-in is a
leaf that takes the place of a table until it is known which of its rows are asked for.
"""
