"""`lake.sql`: which statements it takes, which tables they name, and what they ask of those for sure.

`sql` refuses what is not a query and names the call to use instead. `catalyst` is the only module that knows the
classes of Spark's parser and plans. `names` finds the lake's tables in a plan and puts their rows there; `named`
counts them, so that none is missed. `hints` takes from a plan the conditions that spare files, and `results` reads the
rows of a query by and by. `safe` checks queries of people who are trusted with the tables alone, against lists of
classes; `safe_functions` lists what such queries may call.

May import: `pipeline.read` and the layers below; not `write/` or `source/`.
Read first: `names.py`.

Nouns: a reference is a table as a statement names it; a site is the part of the plan with that name.
"""
