"""Segments: the immutable Parquet files that hold the rows of tables.

`writer` writes them, tuned per level by `tuning`; `reader` reads them, and Parquet files of other engines that carry
field ids. `footer` turns a footer into facts of columns. `row_mapping` brings rows of an older schema to the schema
they are read with.

A read with a filter goes `reader` > `sieve` (which rows match) > `decoder` (columns at their positions) > `page_reader`
(single pages), `page_search` (pages that have a text) > `opened` (the footer, decoded once) > `page_index` (where pages
lie) > `thrift`. `joined` decodes small files together; `options` is what callers ask for.

May import: `moulin.model` and `formats.deletion_vector`.
Read first: docs/formats/segment.md, then `writer.py` and `reader.py`.

Nouns: a file has row groups; a row group has a chunk per leaf column; a leaf is a column without fields inside.
"""
