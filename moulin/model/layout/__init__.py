"""How rows are laid out: which partition, which order, which key, which region, and these values as bytes.

`partition` and `transform` (with `murmur3`) follow Iceberg's specification; `sort` orders rows; `key` and `key_value`
encode primary keys so that bytes compare as values do, `index_value` does the same for secondary indexes. `region`
divides keys among writers, `bounds` is the encoding of column bounds, `size_tier` ranks segments by size,
`event_time` names the column that time ranges prune on.

May import: `model.schema`, `model.names`, `model.arrays`.
Read first: `key.py` for keyed tables, `partition.py` for the others.

Nouns: a spec or order is kept with the table; a partition tuple or a key is the value of one row.
"""
