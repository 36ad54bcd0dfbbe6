"""DataFrames and folders of files into tables.

`writer` runs in tasks: every task writes its rows as sorted segments, and the driver commits once. `source_write` is
the same for `format("moulin")`, where three processes plan, write and commit. `backfill` loads folders of files,
each file once, however often it is killed.

May import: `pipeline.read`, `pipeline.runner`, and the layers below.
Read first: `writer.py`.

Nouns: a job writes parts; a part is what one task wrote; a backfill has batches, and a batch has files.
"""
