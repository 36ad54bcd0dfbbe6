"""`format("moulin")`: the lake as a data source of any Spark session, without a lake object.

`datasource` is the class that Spark loads; it imports the rest when it is used. `options` reads and checks what the
user set. `table_source` reads and writes tables in batches, `feed_source` reads the change feed in batches and as a
stream, `stream_writer` is the sink of structured streams. `loaded` handles reads in sessions with an attached lake.

May import: `pipeline.read`, `pipeline.write`, and the layers below. The modules beside `datasource` import `options`
and `errors` (Moulin's errors without tracebacks), and not each other.
Read first: `datasource.py`.

Nouns: a source table is named by options; a partition is what one task reads; a part is what one task wrote.
"""
