"""The bytes of every file that Moulin writes, one module per format, and the formats of files it only reads.

Each module has the noun of its page in docs/formats/ and of its tests, but `row_file` (Parquet, CSV and NDJSON of
users) and `messages` (the protobuf messages of manifests, loaded when they are used). It turns bytes into values and
back, checks what it reads, and raises Corrupt for damage. It neither lists nor writes files: callers pass bytes, or a
function that reads a range.

May import: `moulin.model`. Formats do not know each other, except that `puffin` and `segment/` hold a
`deletion_vector` and `secondary_index` shares the filters of `key_index`; `index_bitmaps` has its bitmaps.
`merutable_schema` is what another reader asks of manifests.
Read first: `segment/writer.py`, then `deletion_vector.py`; for keyed tables `log_entry.py`, `wal.py`, `key_index.py`.

Nouns: a collector writes baby segments; a segment is a Parquet file of a table; a vector marks its deleted rows;
a journal says where a compaction put each row.
"""
