"""Values shared by all layers: schemas, rows, keys, conditions, facts, operations. No I/O.

Rooms, top first: `where/` (conditions as text) > `predicate/` (conditions as trees; pruning) > `key/` (keys) >
`layout/` (partitions, sort orders) and `rows/` (rows on their way in) > `schema/` (columns and types) > `columns/`
(Arrow and NumPy). The modules beside them are plain values: `facts` of files, `operations` on tables, `conflicts`
between them, `entities` that the catalog answers with, `tags`, `ingest` for streams. `region_spec` says which
region of a keyed table a key belongs to, `nested_types` which texts take a parser too long.

May import: the standard library, Arrow, NumPy, sqlglot, and `moulin.errors`.
Read first: `facts.py` and `operations.py`; everything that is committed is made of them.

Nouns: a segment has facts; an operation names segments; a commit of operations makes a version; an entity is a
table, view or database as of one version.
"""
