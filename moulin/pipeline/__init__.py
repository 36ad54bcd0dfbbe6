"""Everything that runs on Spark, and the nursery. PySpark is imported only here and in `moulin.sql_server`.

Rooms, top first: `connect/` (what clients of the SQL server send) and `safe_spark` (statements of the console) >
`spark` (Spark for one lake) > `source/`
(`format("moulin")` in any session) and `nursery/` (streams into tables) > `attached/` (Spark sessions that know a
lake) and `statements/` (what `lake.sql` runs besides queries) > `sql/` (`lake.sql`) and `write/` (DataFrames in) >
`read/` (tables as DataFrames) > `runner` (planned tasks) and `session` > `java` (the Java that runs it).
`rehearsal` records the class-data cache at set-up.

May import: all layers down from `moulin.ingest`; not `meta` or `iceberg`.
Read first: `spark.py`, then `read/reader.py` and `write/writer.py`.

Nouns: a job is Spark's; a task is one piece of planned work; a batch is what a nursery or a stream commits at once.
"""
