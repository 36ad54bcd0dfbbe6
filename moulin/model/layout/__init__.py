"""Layout of rows: partitions, sort orders, and the encoding of their values. Keys and regions are in `key/`.

`partition_spec` and `sort_order` are the partition spec and the sort order of a table, in Iceberg's JSON; `partition`
and `transform` (with `murmur3`) compute partitions as Iceberg's specification says; `sort` makes sort orders.
`partition_rows` and `sort_rows` do it for many rows. `bounds` is the encoding of column bounds, `size_tier` ranks
segments by size, `event_time` names the column that time ranges prune on.

May import: `model.schema`, `model.names`, `model.columns`.
Read first: `partition.py`.

Nouns: a spec or order is kept with the table; a partition tuple is the value of one row.
"""
