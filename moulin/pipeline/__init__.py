"""Everything that runs on Spark, and the nursery. PySpark is imported in this package only.

Rooms, top first: `source/` (`format("moulin")` in any session), `nursery/` (streams into tables) and `spark` (Spark
for one lake) > `statements/` (what `lake.sql` runs besides queries) > `sql/` (`lake.sql`) and `write/` (DataFrames
in) > `read/` (tables as DataFrames) > `runner` (planned tasks) and `session` > `java` (the Java that runs it).
`rehearsal` records the class-data cache at set-up.

May import: all layers down from `moulin.ingest`; not `meta` or `iceberg`.
Read first: `spark.py`, then `read/reader.py` and `write/writer.py`.

Nouns: a job is Spark's; a task is one piece of planned work; a batch is what a nursery or a stream commits at once.
"""
